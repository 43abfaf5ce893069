"""HTML report of an evaluation."""
