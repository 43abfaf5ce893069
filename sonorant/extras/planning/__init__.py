"""`sonorant plan`: what a training will take in memory, time and money, before it starts."""
