"""What ships: the choice among the variants that were judged, and the bundle that holds it. Knows nothing of how they were judged."""
