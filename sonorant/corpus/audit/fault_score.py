"""The judge: a classifier that predicts, from measurements of a clip, whether its text and audio differ, and how.

It is trained with cross-validation on the corpus alone: the clips, most of which are correct, against planted faults. A
linear model and boosted trees are combined, because each alone missed some kinds of fault (docs/log/recordings.md).
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
"""Maximum mismatch probability, according to a first judge, of a clip used as a correct example. Excluding a fixed
fraction of clips would flag unusual clips of a clean corpus."""
_GOOD = "good"


@dataclass(frozen=True, kw_only=True)
class Exhibit:
    clip: int
    """Index of the clip. Its planted faults are in the same cross-validation fold."""
    fault: Fault | None
    figures: dict[str, float]


def judge(exhibits: Sequence[Exhibit], clips: int) -> tuple[Doubles, list[Fault]]:
    """Return the score (clips,) in 0..1 and most likely fault of every clip. `exhibits` contains each clip once without
    a planted fault."""
    names = list(exhibits[0].figures)
    values = np.array([[exhibit.figures[name] for name in names] for exhibit in exhibits])
    values = np.sign(values) * np.log1p(np.abs(values))  # gains reach hundreds of nats, but a few nats are decisive
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
        kinds, fold = self.kinds(), self.clip % FOLDS
        found = np.full((len(self.trusted), len(kinds)), 1e-9)
        as_it_is = self.kind == _GOOD
        for part in range(FOLDS):
            learned = (fold != part) & self.trusted[self.clip]
            judged = (fold == part) & as_it_is
            if not judged.any():
                continue
            # Both classes have the same total weight.
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
