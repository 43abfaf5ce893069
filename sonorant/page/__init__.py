"""A page on loopback where one types a text and hears it. Knows nothing of how a voice was made."""
