"""A third family of voice, as somebody else would bring one: this folder and one entry point."""
