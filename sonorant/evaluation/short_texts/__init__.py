"""Find skipped, repeated and babbled words in short texts and many sentences."""
