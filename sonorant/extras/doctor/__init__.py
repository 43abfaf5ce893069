"""`sonorant doctor`: is this machine in order for training? Each finding comes with a hint."""
