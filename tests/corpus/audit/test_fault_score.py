import numpy as np

from sonorant.corpus.audit.fault_score import Exhibit, judge
from sonorant.corpus.audit.findings import Fault

CLIPS = 300
WRONG = {7: Fault.OTHER_TEXT, 50: Fault.CUT_AT_START, 111: Fault.OTHER_TEXT, 112: Fault.CUT_AT_START}


def figures(fault: Fault | None, chance: np.random.Generator) -> dict[str, float]:
    lacking, cut, other = chance.normal(0, 1, 3)
    return {
        "lacking": 2.0 + lacking + 40.0 * (fault == Fault.OTHER_TEXT),
        "cut": -3.0 + cut + 15.0 * (fault == Fault.CUT_AT_START),
        "nothing": other,
    }


def exhibits() -> list[Exhibit]:
    chance = np.random.default_rng(0)
    rows = [Exhibit(clip=clip, fault=None, figures=figures(WRONG.get(clip), chance)) for clip in range(CLIPS)]
    for clip in range(0, CLIPS, 2):
        rows += [
            Exhibit(clip=clip, fault=fault, figures=figures(fault, chance))
            for fault in (Fault.OTHER_TEXT, Fault.CUT_AT_START)
        ]
    return rows


def test_what_looks_like_a_fault_is_found_and_named() -> None:
    scores, faults = judge(exhibits(), CLIPS)
    flagged = {clip for clip in range(CLIPS) if scores[clip] > 0.75}
    assert set(WRONG) <= flagged and len(flagged - set(WRONG)) <= 0.02 * CLIPS
    assert {clip: faults[clip] for clip in WRONG} == WRONG
    assert ((scores >= 0) & (scores <= 1)).all()


def test_of_a_clean_corpus_its_oddities_are_flagged_at_most() -> None:
    """One correct clip in twenty sounds odd, but less so than a fault."""
    chance = np.random.default_rng(2)
    odd = set(range(0, CLIPS, 20))
    rows = [
        Exhibit(clip=clip, fault=None, figures={"lacking": (6.0 if clip in odd else 2.0) + chance.normal(0, 1)})
        for clip in range(CLIPS)
    ]
    rows += [
        Exhibit(clip=clip, fault=Fault.OTHER_TEXT, figures={"lacking": chance.normal(14, 3)}) for clip in range(CLIPS)
    ]
    scores, _ = judge(rows, CLIPS)
    assert (scores > 0.9).mean() < 0.05
