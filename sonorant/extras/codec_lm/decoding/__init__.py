"""Decoding token by token: sampling, the text pointer, end of speech, retries. Runs no model."""
