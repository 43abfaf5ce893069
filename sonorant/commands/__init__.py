"""The subcommands of `sonorant`, one a file, each with `add` and `run`. Know nothing of each other."""
