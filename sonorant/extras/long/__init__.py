"""Long recordings beside their texts: which words are spoken where, and where to cut."""
