"""What a rung of the ladder finds wrong. Knows no rung."""


class Fault(Exception):
    """One candidate computes something else than it should; one line that names graph, output, length and figure."""
