"""Parts that the core does not need: each folder is one plug-in and can be removed."""
