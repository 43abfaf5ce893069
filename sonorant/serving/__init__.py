"""`sonorant serve`: an HTTP server in front of voices."""
