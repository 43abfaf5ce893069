"""Gates that compare a voice with the champion, paired by sentence where possible."""

import numpy as np

from sonorant.errors import SonorantError
from sonorant.registry.figures import entry, number
from sonorant.registry.gates import RESAMPLES, Gate, PromoteConfig, finding, not_compared, points
from sonorant.registry.side_by_side import latency_ratios
from sonorant.registry.verdict_evidence import Evidence
from sonorant.training.intervals import bootstrap, check_enough, rate

ROUNDING = 0.001
"""Tolerance in points: figures have three digits."""
HINT = "judge it again on these sentences and register its figures (docs/deploy.md), or promote with --without-champion"


def judge_beside(voice: Evidence, champion: Evidence, config: PromoteConfig) -> tuple[Gate, ...]:
    gates = {
        "wer_above_champion": (_wer_above_champion, config.max_wer_above_champion),
        "latency_over_champion": (_latency_over_champion, config.max_latency_over_champion),
        "dnsmos_below_champion": (_dnsmos_below_champion, config.max_dnsmos_below_champion),
        "size_over_champion": (_size_over_champion, config.max_size_over_champion),
    }
    found = []
    for name, (gate, limit) in gates.items():
        try:
            found.append(gate(voice, champion, limit))
        except SonorantError as error:
            found.append(not_compared(name, str(error)))
    return tuple(found)


def _wer_above_champion(voice: Evidence, champion: Evidence, limit: float) -> Gate:
    _check_same_judge(voice, champion)
    ours, theirs, words = voice.word_errors(), champion.word_errors(), voice.words()
    check_enough(len(words))
    our, their = rate(ours, words), rate(theirs, words)
    text = f"{our:.1f} %, version {champion.version} {their:.1f} % on the same {len(words)} sentences"
    above = our - their
    return points("wer_above_champion", text, above, bootstrap(rate, ours - theirs, words, resamples=RESAMPLES), limit)


def _check_same_judge(voice: Evidence, champion: Evidence) -> None:
    for each in (voice, champion):
        if not each.sentences:
            raise SonorantError(f"version {each.version} was registered without its judged sentences; {HINT}")
        heard = entry(each.metrics, "intelligibility", each.shipped.variant)
        if isinstance(heard, str):
            raise SonorantError(f"version {each.version}: {heard}")
        _check_judged_whole(each, number(heard, "wer"))
    if voice.judge != champion.judge:
        theirs, ours = (" ".join(map(str, each.judge.values())) for each in (champion, voice))
        raise SonorantError(f"version {champion.version} was judged by {theirs}, this by {ours}; {HINT}")
    if voice.texts() != champion.texts():
        raise SonorantError(f"version {champion.version} was judged on other sentences; {HINT}")


def _check_judged_whole(version: Evidence, figure: float | None) -> None:
    """A crash between registering figures and sentences leaves the two inconsistent."""
    heard = rate(version.word_errors(), version.words())
    if figure is None or abs(heard - figure) > ROUNDING:
        raise SonorantError(
            f"version {version.version} was judged half: {heard:.3f} % of words are wrong in its sentences, "
            f"{'none' if figure is None else f'{figure:.3f} %'} by its figures; judge it again and register that by "
            "python -m tasks.register (docs/deploy.md)"
        )


def _latency_over_champion(voice: Evidence, champion: Evidence, limit: float) -> Gate:
    if not voice.sentences:
        remedy = "register it beside reports/evaluation"
        raise SonorantError(f"version {voice.version} was registered without sentences to speak; {remedy}")
    ratios = latency_ratios(voice.bundle, champion.bundle, [reference for _, reference, _ in voice.texts()])
    check_enough(len(ratios))
    ratio, (low, high) = float(np.median(ratios)), bootstrap(np.median, ratios, resamples=RESAMPLES)
    theirs = f"version {champion.version}'s {champion.shipped.candidate}"
    reason = (
        f"{voice.shipped.candidate} takes {ratio:.2f} times as long as {theirs}, timed in turn on "
        f"{len(ratios)} sentences (paired 95 % interval {low:.2f} to {high:.2f}; {finding(low, high, 1.0)}), "
        f"its upper end at most {limit:.2f}"
    )
    bounds = (low, high)
    return Gate(
        name="latency_over_champion", passed=high <= limit, reason=reason, value=ratio, interval=bounds, limit=limit
    )


def _dnsmos_below_champion(voice: Evidence, champion: Evidence, limit: float) -> Gate:
    name, ours, theirs = "dnsmos_below_champion", voice.opinions(), champion.opinions()
    for each, opinions in ((voice, ours), (champion, theirs)):
        if not opinions:
            found = entry(each.metrics, "naturalness", each.shipped.variant, "dnsmos")
            why = found.removeprefix("not run: ") if isinstance(found, str) else "not measured"
            return Gate(name=name, passed=True, reason=f"not run: version {each.version}: {why}", limit=limit)
    same = [text for text in ours if text in theirs]
    if not same:
        raise SonorantError(f"version {champion.version} was judged on other sentences; {HINT}")
    our, their = (np.array([opinions[text] for text in same]) for opinions in (ours, theirs))
    check_enough(len(same))
    below, bounds = float(np.mean(their - our)), bootstrap(np.mean, their - our, resamples=RESAMPLES)
    text = f"overall {our.mean():.2f}, version {champion.version} {their.mean():.2f} on the same {len(same)} sentences"
    return points(name, text, below, bounds, limit, digits=2)


def _size_over_champion(voice: Evidence, champion: Evidence, limit: float) -> Gate:
    ours, theirs = voice.shipped, champion.shipped
    ratio = ours.bytes / theirs.bytes
    reason = (
        f"{ours.variant} has {ours.bytes / 1e6:.2f} MB, version {champion.version}'s {theirs.variant} "
        f"{theirs.bytes / 1e6:.2f} MB: {ratio:.2f} times, at most {limit:.2f}"
    )
    return Gate(name="size_over_champion", passed=ratio <= limit, reason=reason, value=ratio, limit=limit)
