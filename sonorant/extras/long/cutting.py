"""Cut a long recording at pauses into utterances.

An atom is speech without a pause; it is never divided. A run is a sequence of atoms with continuous text, up to the
next jump in the text. An atom is omitted if the recognised words differ from the text, or if a jump interrupts its
sentence, because readers usually repeat such a sentence.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rapidfuzz import fuzz

from sonorant.extras.long.listening import Heard
from sonorant.extras.long.placing import NOWHERE
from sonorant.extras.long.script import Script

PAUSE = 0.2
"""Minimum pause in seconds at which to cut."""
MARGIN = 0.1
"""Seconds kept before the first and after the last word."""
_SHORT_PAUSE = 0.03  # seconds
_AT_CLAUSE, _ANYWHERE = 1.0, 3.0  # cost of a cut at the end of a clause, or within one
_PER_SENTENCE = 0.8  # cost of each sentence end inside an utterance
_LEFT_OUT = 20.0  # cost of omitting an atom
_PUT_IN_SECONDS = 0.3  # maximum of extra words in an atom, such as breaths
_HEARD = 0.6  # minimum fraction of an atom's words recognised as written
_ALIKE = 60  # minimum percent of matching letters in an atom between good ones
_UNHEARD = 2  # maximum consecutive words that a recogniser may miss


@dataclass(frozen=True)
class Cut:
    """An utterance: `start` and `end` in seconds, including margins, and the range [`first`, `last`) of its words."""

    start: float
    end: float
    first: int
    last: int


@dataclass
class _Atom:
    start: float
    end: float
    first: int
    last: int
    good: bool
    alike: bool
    """Whether the atom counts as good if both neighbours are good."""
    alone: bool = False
    """Whether a run starts with this atom."""
    divided: bool = True
    """Whether the recording may be cut before this atom, because no words were missed there."""
    parted: bool = False
    """Whether a cut is required before this atom, because speech that is not in the text precedes it."""


def cut(heard: Sequence[Heard], places: Sequence[int], script: Script, shortest: float, longest: float) -> list[Cut]:
    """Return utterances of `shortest` to `longest` seconds, in order. `places`: position of each `heard` word in the
    text."""
    atoms = _atoms(heard, places, script)
    _join(atoms, script)
    cuts: list[Cut] = []
    first = 0
    for place in range(1, len(atoms) + 1):
        if place == len(atoms) or atoms[place].alone:
            cuts += _best(_whole(atoms[first:place], script), script, shortest, longest)
            first = place
    return cuts


def _atoms(heard: Sequence[Heard], places: Sequence[int], script: Script) -> list[_Atom]:
    """Return the atoms that contain at least one word of the text."""
    found, first, parted = [], 0, False
    for place in range(1, len(heard) + 1):
        if place < len(heard) and not _cuttable(heard, places, place):
            continue
        if all(at == NOWHERE for at in places[first:place]):
            parted = True
        else:
            found.append(_atom(heard[first:place], places[first:place], script))
            found[-1].parted, parted = parted, False
        first = place
    return found


def _cuttable(heard: Sequence[Heard], places: Sequence[int], place: int) -> bool:
    """Return whether a pause precedes a word. Next to words that are not in the text (breaths), a short pause
    suffices."""
    other = (places[place] == NOWHERE) != (places[place - 1] == NOWHERE)
    return heard[place][1] - heard[place - 1][2] >= (_SHORT_PAUSE if other else PAUSE)


def _atom(heard: Sequence[Heard], places: Sequence[int], script: Script) -> _Atom:
    placed = [place for place in places if place != NOWHERE]
    first, last = placed[0], placed[-1] + 1
    steps = [later - earlier for earlier, later in pairwise(placed)]
    in_order = all(0 < step <= _UNHEARD + 1 for step in steps)
    put_in = sum(word[2] - word[1] for word, place in zip(heard, places, strict=True) if place == NOWHERE)
    right = sum(place != NOWHERE and word[0] == script.words[place] for word, place in zip(heard, places, strict=True))
    may_be = in_order and put_in <= _PUT_IN_SECONDS
    good = may_be and right >= _HEARD * (last - first)
    alike = may_be and fuzz.ratio(" ".join(word for word, _, _ in heard), " ".join(script.words[first:last])) >= _ALIKE
    return _Atom(heard[0][1], heard[-1][2], first, last, good=good, alike=alike)


def _join(atoms: list[_Atom], script: Script) -> None:
    missed = [later.first - earlier.last for earlier, later in pairwise(atoms)]
    for place in range(1, len(atoms) - 1):
        around = atoms[place - 1].good and atoms[place + 1].good and missed[place - 1] == missed[place] == 0
        atoms[place].good |= atoms[place].alike and around
    if atoms:
        atoms[0].alone = True
    for (before, atom), words in zip(pairwise(atoms), missed, strict=True):
        atom.alone = not 0 <= words <= _UNHEARD
        # Within a sentence, an atom that differs from the text may contain a word of its neighbour.
        sure = (before.good and atom.good) or atom.first in script.sentence_ends
        atom.divided = words == 0 and script.begins(atom.first) and sure


def _whole(run: list[_Atom], script: Script) -> list[_Atom]:
    while run and run[0].first not in script.sentence_ends:
        run = run[1:]
    while run and run[-1].last not in script.sentence_ends:
        run = run[:-1]
    return run


def _best(run: list[_Atom], script: Script, shortest: float, longest: float) -> list[Cut]:
    def parts(last: int) -> Iterator[tuple[int, float]]:
        for first in range(last - 1, -1, -1):
            seconds = run[last - 1].end - run[first].start + 2 * MARGIN
            if seconds > longest or not run[first].good:
                return
            separate = (first == 0 or run[first].divided) and (last == len(run) or run[last].divided)
            if seconds >= shortest and separate:
                yield first, _cost(run, first, last, script)
            if run[first].parted:
                return

    return [
        Cut(*_with_margins(run[first].start, run[last - 1].end), run[first].first, run[last - 1].last)
        for first, last in _cheapest(len(run), parts)
    ]


def _cheapest(count: int, parts: Callable[[int], Iterable[tuple[int, float]]]) -> list[tuple[int, int]]:
    """Divide `count` items into parts [first, last) at the lowest cost by dynamic programming; items may be omitted.
    `parts` maps the end of a part to possible starts and their costs."""
    costs, came = [0.0], [(0, False)]
    for last in range(1, count + 1):
        best, how = costs[last - 1] + _LEFT_OUT, (last - 1, False)
        for first, own in parts(last):
            if costs[first] + own < best:
                best, how = costs[first] + own, (first, True)
        costs.append(best)
        came.append(how)
    found, last = [], count
    while last:
        first, kept = came[last]
        if kept:
            found.append((first, last))
        last = first
    return found[::-1]


def _with_margins(start: float, end: float) -> tuple[float, float]:
    return round(max(start - MARGIN, 0.0), 3), round(end + MARGIN, 3)


def _cost(run: list[_Atom], first: int, last: int, script: Script) -> float:
    after = run[last - 1].last
    inside = sum(word in script.sentence_ends for word in range(run[first].first + 1, after))
    at_end = 0.0 if after in script.sentence_ends else _AT_CLAUSE if after in script.clause_ends else _ANYWHERE
    return at_end + _PER_SENTENCE * inside


def join_stretches(
    stretches: Sequence[tuple[float, float]], shortest: float, longest: float
) -> list[tuple[float, float]]:
    """Join stretches of speech across short pauses. Return utterances in seconds, with margins."""

    def parts(last: int) -> Iterator[tuple[int, float]]:
        for first in range(last - 1, -1, -1):
            seconds = stretches[last - 1][1] - stretches[first][0] + 2 * MARGIN
            if seconds > longest:
                return
            if seconds >= shortest:
                gaps = sum(stretches[place][0] - stretches[place - 1][1] for place in range(first + 1, last))
                yield first, 1 + gaps / (2 * PAUSE)

    cheapest = _cheapest(len(stretches), parts)
    return [_with_margins(stretches[first][0], stretches[last - 1][1]) for first, last in cheapest]
