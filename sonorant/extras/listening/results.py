"""Evaluate a listening test: preference, ratings and their intervals.

Listeners who rate the hidden reference below 90 in more than 15 % of the sentences are excluded (ITU-R BS.1534-3,
section 4.1.2).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from sonorant.audio.arrays import Doubles
from sonorant.extras.listening.answers import PAIR, RATING, Answer, Header
from sonorant.extras.listening.listening_sounds import ANCHOR, RECORDINGS, A, B
from sonorant.training.intervals import LEAST, crossed_bootstrap, wilson_interval

HEARD = 90
"""Minimum rating at which the hidden reference counts as recognised."""
MISSED = 0.15
"""Maximum fraction of sentences in which a listener may rate the hidden reference below HEARD."""
LISTENERS = 5
"""Minimum number of listeners for intervals that take account of listeners, not only of sentences."""
RESAMPLES = 2000
DIFFERENCE = "A minus B"


@dataclass(frozen=True, kw_only=True)
class Estimate:
    mean: float
    low: float
    """Lower limit of the 95 % interval."""
    high: float


@dataclass(frozen=True, kw_only=True)
class Results:
    """Results in percent or rating points, without excluded listeners."""

    excluded: Mapping[str, str]
    """Reason for each listener's exclusion."""
    preferred: Mapping[str, Mapping[str | None, int]]
    """Number of pairs in which each listener preferred each system; None counts ties."""
    preference: Estimate | None
    """Percentage of pairs in which A was preferred, ties counting half; None without pairs."""
    ratings: Mapping[str, Estimate]
    """Mean rating of each system, and mean DIFFERENCE within a sentence; may be empty."""
    by_listener: Mapping[str, Mapping[str, float]]


def judge(answers: Sequence[Answer]) -> Results:
    """Evaluate answers. With fewer than LISTENERS listeners, intervals take account of sentences only."""
    excluded = screen(answers)
    kept = [answer for answer in answers if answer.listener not in excluded]
    pairs, rated = ([answer for answer in kept if answer.kind == kind] for kind in (PAIR, RATING))
    preferred: dict[str, dict[str | None, int]] = defaultdict(lambda: dict.fromkeys((A, None, B), 0))
    for answer in pairs:
        preferred[answer.listener][answer.prefers] += 1
    scores: dict[str, list[float]] = defaultdict(list)
    for answer in rated:
        for system, score in (answer.scores or {}).items():
            scores[system].append(score)
        scores[DIFFERENCE].append(scores[A][-1] - scores[B][-1])
    by_listener: dict[str, dict[str, float]] = {}
    for listener in {answer.listener: None for answer in rated}:
        own = [place for place, answer in enumerate(rated) if answer.listener == listener]
        by_listener[listener] = {system: float(np.mean(np.array(scores[system])[own])) for system in scores}
    return Results(
        excluded=excluded,
        preferred=preferred,
        preference=_preference(pairs) if pairs else None,
        ratings={system: _estimate(rated, values) for system, values in scores.items()},
        by_listener=by_listener,
    )


def screen(answers: Sequence[Answer]) -> dict[str, str]:
    given: dict[str, list[int]] = defaultdict(list)
    for answer in answers:
        if answer.scores and RECORDINGS in answer.scores:
            given[answer.listener].append(answer.scores[RECORDINGS])
    missed = {listener: sum(score < HEARD for score in scores) for listener, scores in given.items()}
    return {
        listener: f"rated the hidden recording below {HEARD} in {count} of {len(given[listener])} sentences"
        for listener, count in missed.items()
        if count > MISSED * len(given[listener])
    }


def _preference(pairs: Sequence[Answer]) -> Estimate:
    """Estimate how often A is preferred. The interval includes Wilson's, because a bootstrap of unanimous answers has
    zero width."""
    won = [{A: 100.0, B: 0.0}.get(str(answer.prefers), 50.0) for answer in pairs]
    found = _estimate(pairs, won)
    low, high = wilson_interval(sum(won) / 100, len(won))
    return Estimate(mean=found.mean, low=min(found.low, 100 * low), high=max(found.high, 100 * high))


def _estimate(answers: Sequence[Answer], values: Sequence[float]) -> Estimate:
    listeners, sentences = (
        {name: place for place, name in enumerate(dict.fromkeys(names))}
        for names in ((answer.listener for answer in answers), (answer.sentence for answer in answers))
    )
    table: Doubles = np.full((len(listeners), len(sentences)), np.nan)
    for answer, value in zip(answers, values, strict=True):
        table[listeners[answer.listener], sentences[answer.sentence]] = value
    low, high = crossed_bootstrap(table, resamples=RESAMPLES, rows=len(listeners) >= LISTENERS)
    return Estimate(mean=float(np.mean(values)), low=low, high=high)


def told(header: Header, answers: Sequence[Answer]) -> str:
    given: dict[str, int] = defaultdict(int)
    for answer in answers:
        given[answer.listener] += 1
    each = len(header.sentences) * (2 if header.recordings else 1)
    lines = [f"A: {header.A}", f"B: {header.B}", *([f"recordings: {header.recordings}"] if header.recordings else [])]
    lines.append(f"{len(header.sentences)} sentences, seed {header.seed}, {_count(len(given), 'listener')}")
    lines += [f"  {listener} gave {count} of {each} answers" for listener, count in given.items() if count < each]
    if not answers:
        return "\n".join([*lines, "No answers yet."])
    results = judge(answers)
    lines += [f"  excluded: {listener}, who {why}" for listener, why in results.excluded.items()]
    if header.recordings is None:
        lines.append("  listeners are not screened, because that requires recordings")
    return "\n".join([*lines, *_preferences(results), *_ratings(results), *_caution(results, header)])


def _preferences(results: Results) -> list[str]:
    if results.preference is None:
        return []
    won = {system: sum(own[system] for own in results.preferred.values()) for system in (A, None, B)}
    found = results.preference
    verdict = (
        "no preference is shown" if found.low <= 50 <= found.high else f"{A if found.mean > 50 else B} is preferred"
    )
    lines = ["", f"Preference, {_count(sum(won.values()), 'pair')}: A {won[A]}, neither {won[None]}, B {won[B]}"]
    lines.append(f"  A over B  {found.mean:5.1f} %   95 % interval {found.low:.1f} to {found.high:.1f}: {verdict}")
    if len(results.preferred) > 1:
        lines += [f"  {who}: A {own[A]}, neither {own[None]}, B {own[B]}" for who, own in results.preferred.items()]
    return lines


def _ratings(results: Results) -> list[str]:
    if not results.ratings:
        return []
    lines = ["", f"{'Ratings, 0 to 100':<20}   mean   95 % interval"]
    for system in (RECORDINGS, A, B, ANCHOR, DIFFERENCE):
        one, sign = results.ratings[system], "+" if system == DIFFERENCE else ""
        name = "anchor (3.5 kHz)" if system == ANCHOR else system
        lines.append(f"  {name:<18} {one.mean:{sign}6.1f}   {one.low:{sign}.1f} to {one.high:{sign}.1f}")
    if len(results.by_listener) > 1:
        means = {
            who: ", ".join(f"{name} {own[name]:.0f}" for name in (A, B)) for who, own in results.by_listener.items()
        }
        lines += [f"  {who}: {mean}" for who, mean in means.items()]
    return lines


def _caution(results: Results, header: Header) -> list[str]:

    if results.preference is None and not results.ratings:
        return ["", "All listeners are excluded."]
    kept, lines = len(results.preferred.keys() | results.by_listener.keys()), [""]
    if len(header.sentences) < LEAST:
        lines.append(f"Fewer than {LEAST} sentences: the intervals are too narrow.")
    whom = "listeners and sentences" if kept >= LISTENERS else "sentences"
    few = "" if kept >= LISTENERS else f"; to generalise to other listeners, ask at least {LISTENERS} of them"
    return [*lines, f"Intervals are over {whom}{few}."]


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
