"""Short texts and rare faults: words that a voice skips, repeats or babbles."""
