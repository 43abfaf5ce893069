"""Cut a long recording at pauses into utterances that hold whole runs of the text, and list what could not be placed.

What is read without a pause is one atom, which is never divided. Atoms that go on where the one before ended make a
run; runs end where the reader jumped. An atom is left out where what was heard is not what is written, and where a jump
leaves it within a sentence: what was broken off there is mostly said again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rapidfuzz import fuzz

from sonorant.extras.long.listening import Heard
from sonorant.extras.long.placing import NOWHERE
from sonorant.extras.long.script import Script

PAUSE = 0.2
"""Seconds without a word at which may be cut."""
MARGIN = 0.1
"""Seconds kept before the first word and after the last."""
_SHORT_PAUSE = 0.03  # seconds
_AT_CLAUSE, _ANYWHERE = 1.0, 3.0  # what a cut costs that is not at the end of a sentence
_PER_SENTENCE = 0.8  # what each end of a sentence costs that is not cut at
_LEFT_OUT = 20.0  # what leaving out an atom costs
_PUT_IN_SECONDS = 0.3  # heard and not written, within an atom: a breath taken for a word
_HEARD = 0.6  # share of an atom's words that are heard as written
_ALIKE = 60  # percent of the letters of an atom that are heard as written, where the text goes on before and after it
_UNHEARD = 2  # words in a row that a recogniser may miss


@dataclass(frozen=True)
class Cut:
    """An utterance: `start` to `end` in seconds, with the margins, and the words of the text from `first` to before
    `last`."""

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
    """Whether it may be the text misheard: it is good if what is around it is."""
    alone: bool = False
    """Whether it goes not on where the atom before ended."""
    divided: bool = True
    """Whether may be cut before it: not where words were missed at the pause, as nobody knows on which side."""
    parted: bool = False
    """Whether must be cut before it, because something else sounds there."""


def cut(heard: Sequence[Heard], places: Sequence[int], script: Script, shortest: float, longest: float) -> list[Cut]:
    """Utterances of `shortest` to `longest` seconds by rising time, from words heard and their places in the text."""
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
    """The atoms that are in the text."""
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
    """Whether there is a pause before a word; beside what the text lacks, a breath mostly, a short one will do."""
    other = (places[place] == NOWHERE) != (places[place - 1] == NOWHERE)
    return heard[place][1] - heard[place - 1][2] >= (_SHORT_PAUSE if other else PAUSE)


def _atom(heard: Sequence[Heard], places: Sequence[int], script: Script) -> _Atom:
    """What is read without a pause; at least one word of it is placed."""
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
    """Note which atoms go on where the one before ended, and where may be cut."""
    missed = [later.first - earlier.last for earlier, later in pairwise(atoms)]
    for place in range(1, len(atoms) - 1):
        around = atoms[place - 1].good and atoms[place + 1].good and missed[place - 1] == missed[place] == 0
        atoms[place].good |= atoms[place].alike and around
    for atom in atoms[:1]:
        atom.alone = True
    for (before, atom), words in zip(pairwise(atoms), missed, strict=True):
        atom.alone = not 0 <= words <= _UNHEARD
        # Within a sentence, a neighbour that is not as written may hold a word of this side.
        sure = (before.good and atom.good) or atom.first in script.sentence_ends
        atom.divided = words == 0 and script.begins(atom.first) and sure


def _whole(run: list[_Atom], script: Script) -> list[_Atom]:
    """A run without what lies before its first and after its last end of a sentence. Words that were missed there are
    as doubtful as words broken off."""
    while run and run[0].first not in script.sentence_ends:
        run = run[1:]
    while run and run[-1].last not in script.sentence_ends:
        run = run[:-1]
    return run


def _best(run: list[_Atom], script: Script, shortest: float, longest: float) -> list[Cut]:
    """The cheapest way to cut a run, by dynamic programming over the atoms."""
    costs, came = [0.0], [(0, False)]
    for last in range(1, len(run) + 1):
        best, how = costs[last - 1] + _LEFT_OUT, (last - 1, False)
        for first in range(last - 1, -1, -1):
            seconds = run[last - 1].end - run[first].start + 2 * MARGIN
            if seconds > longest or not run[first].good:
                break
            if seconds >= shortest and _separate(run, first, last):
                cost = costs[first] + _cost(run, first, last, script)
                if cost < best:
                    best, how = cost, (first, True)
            if run[first].parted:
                break
        costs.append(best)
        came.append(how)
    cuts, last = [], len(run)
    while last:
        first, kept = came[last]
        if kept:
            ends = max(run[first].start - MARGIN, 0.0), run[last - 1].end + MARGIN
            cuts.append(Cut(round(ends[0], 3), round(ends[1], 3), run[first].first, run[last - 1].last))
        last = first
    return cuts[::-1]


def _separate(run: list[_Atom], first: int, last: int) -> bool:
    return (first == 0 or run[first].divided) and (last == len(run) or run[last].divided)


def _cost(run: list[_Atom], first: int, last: int, script: Script) -> float:
    after = run[last - 1].last
    inside = sum(word in script.sentence_ends for word in range(run[first].first + 1, after))
    at_end = 0.0 if after in script.sentence_ends else _AT_CLAUSE if after in script.clause_ends else _ANYWHERE
    return at_end + _PER_SENTENCE * inside


def join_stretches(
    stretches: Sequence[tuple[float, float]], shortest: float, longest: float
) -> list[tuple[float, float]]:
    """Stretches of speech joined into utterances where nothing is known but the pauses: seconds, with the margins."""
    costs, came = [0.0], [(0, False)]
    for last in range(1, len(stretches) + 1):
        best, how = costs[last - 1] + _LEFT_OUT, (last - 1, False)
        for first in range(last - 1, -1, -1):
            seconds = stretches[last - 1][1] - stretches[first][0] + 2 * MARGIN
            if seconds > longest:
                break
            gaps = sum(stretches[place][0] - stretches[place - 1][1] for place in range(first + 1, last))
            cost = costs[first] + 1 + gaps / (2 * PAUSE)
            if seconds >= shortest and cost < best:
                best, how = cost, (first, True)
        costs.append(best)
        came.append(how)
    found, last = [], len(stretches)
    while last:
        first, kept = came[last]
        if kept:
            ends = max(stretches[first][0] - MARGIN, 0.0), stretches[last - 1][1] + MARGIN
            found.append((round(ends[0], 3), round(ends[1], 3)))
        last = first
    return found[::-1]
