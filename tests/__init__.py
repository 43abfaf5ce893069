import tasks  # noqa: F401  # first of all: it says how threads wait, which torch reads when it is loaded
