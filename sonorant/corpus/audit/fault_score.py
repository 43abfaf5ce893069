"""The judge: from figures of clips to the probability that text and sound do not match, and the likeliest fault.

It learns from the corpus alone: the clips as they are, most of which are right, against faults planted into them. No
clip is judged by a judge that learned from it. A linear model and boosted trees vote: on recordings of a person with
planted faults either alone missed kinds that the other found (docs/log/recordings.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sonorant.audio.arrays import Doubles, Ints
from sonorant.corpus.audit.findings import Fault

FOLDS = 5
TRUSTED = 0.5
"""Probability of a fault, by a first judge, up to which the final one takes a clip for right. Not a share of the clips:
a clean corpus would lose its oddities to it, and have them flagged."""
_GOOD = "good"


@dataclass(frozen=True, kw_only=True)
class Exhibit:
    """Figures of a clip as it is, or with a planted fault."""

    clip: int
    """Place of the clip in the corpus; faults planted into a clip are kept from its judge too."""
    fault: Fault | None
    """None = as it is."""
    figures: dict[str, float]


def judge(exhibits: Sequence[Exhibit], clips: int) -> tuple[Doubles, list[Fault]]:
    """Score (clips,) in 0..1 and likeliest fault of every clip. Each has one exhibit as it is; as many faults as
    possible are planted into as many clips as one likes."""
    names = list(exhibits[0].figures)
    values = np.array([[exhibit.figures[name] for name in names] for exhibit in exhibits])
    values = np.sign(values) * np.log1p(np.abs(values))  # gains reach hundreds of nats where a few decide
    court = _Court(
        values=values,
        clip=np.array([exhibit.clip for exhibit in exhibits]),
        kind=np.array([exhibit.fault or _GOOD for exhibit in exhibits]),
        trusted=np.ones(clips, dtype=bool),
    )
    first = court.verdicts(_linear)
    wrong = 1 - first[:, 0]
    court.trusted = wrong <= TRUSTED
    linear, trees = court.verdicts(_linear), court.verdicts(_trees)
    both = np.sqrt(linear * trees)
    good, bad = both[:, 0], np.sqrt((1 - linear[:, 0]) * (1 - trees[:, 0]))
    kinds = court.kinds()[1:]
    return bad / (good + bad), [Fault(kinds[place]) for place in both[:, 1:].argmax(axis=1)]


@dataclass
class _Court:
    values: Doubles
    clip: Ints
    kind: NDArray[np.str_]
    trusted: NDArray[np.bool_]

    def kinds(self) -> list[str]:
        return [_GOOD, *sorted({*self.kind.tolist()} - {_GOOD})]

    def verdicts(self, make: Any) -> Doubles:
        """Probabilities (clips, kinds) of the clips as they are."""
        kinds, fold = self.kinds(), self.clip % FOLDS
        found = np.full((len(self.trusted), len(kinds)), 1e-9)
        as_it_is = self.kind == _GOOD
        for part in range(FOLDS):
            learned = (fold != part) & self.trusted[self.clip]
            judged = (fold == part) & as_it_is
            if not judged.any():
                continue
            # Right clips weigh as much as all planted faults together.
            weight = np.where(as_it_is, (~as_it_is).sum() / as_it_is.sum(), 1.0)
            model = make(self.values[learned], self.kind[learned], weight[learned])
            for name, column in zip(model.classes_, model.predict_proba(self.values[judged]).T, strict=True):
                found[self.clip[judged], kinds.index(name)] += column
        return found / found.sum(axis=1, keepdims=True)


def _linear(values: Doubles, kinds: NDArray[np.str_], weight: Doubles) -> Any:
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    return model.fit(values, kinds, logisticregression__sample_weight=weight)


def _trees(values: Doubles, kinds: NDArray[np.str_], weight: Doubles) -> Any:
    model = HistGradientBoostingClassifier(
        max_iter=120, learning_rate=0.08, max_leaf_nodes=15, l2_regularization=1.0, random_state=0
    )
    return model.fit(values, kinds, sample_weight=weight)
