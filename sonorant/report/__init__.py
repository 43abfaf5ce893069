"""The page people look at and listen to: one self-contained HTML file from what the stages before it wrote."""
