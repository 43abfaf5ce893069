"""Tokens one after the other: sampling, where in the text they are, when they end, and what is done when they do not.
Runs no model."""
