"""The page people look at and listen to."""
