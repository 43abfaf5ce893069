"""`sonorant listen`: a blind listening test on loopback, its answers in a file, and what they say."""
