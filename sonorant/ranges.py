"""Ranges of settings, as types of their fields; `sonorant.files.parse_checked` refuses other values."""

from typing import Annotated

from annotated_types import Interval, MinLen

Count = Annotated[int, Interval(ge=1, le=10**9)]
Whole = Annotated[int, Interval(ge=0, le=10**9)]
Size = Annotated[int, Interval(ge=1, le=2**16)]
"""A dimension of a network or a transform."""
Seed = Annotated[int, Interval(ge=0, le=2**63 - 1)]
Level = Annotated[float, Interval(ge=-1e9, le=1e9)]
Amount = Annotated[float, Interval(ge=0, le=1e9)]
Positive = Annotated[float, Interval(gt=0, le=1e9)]
Fraction = Annotated[float, Interval(ge=0, le=1)]
Share = Annotated[float, Interval(gt=0, le=1)]
"""A fraction above 0, or a learning rate."""
Partial = Annotated[float, Interval(ge=0, lt=1)]
"""A fraction below 1, such as a dropout probability."""
Text = Annotated[str, MinLen(1)]
