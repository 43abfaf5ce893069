"""Decoding token by token: sampling, the pointer into the text, when speech ends, and retries. Runs no model."""
