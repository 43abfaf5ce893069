"""Demo page that speaks a typed text."""
