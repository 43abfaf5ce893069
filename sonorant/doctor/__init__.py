"""`sonorant doctor`: is this machine in order for training? Each finding with what to do about it. Knows nothing of any
voice."""
