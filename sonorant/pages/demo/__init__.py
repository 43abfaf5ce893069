"""A page on loopback where one types a text and hears it."""
