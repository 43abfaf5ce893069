"""The former champion becomes champion again. Knows nothing of figures: a person has seen what no gate measured."""

from __future__ import annotations

from dataclasses import dataclass

from sonorant.errors import SonorantError
from sonorant.registry.aliases import BEST, FORMER, Move, all_versions, begin, finish, now, read_aliases, registry


@dataclass(frozen=True, kw_only=True)
class RolledBack:
    """What a rollback did."""

    name: str
    champion: int
    """The version that is `champion` again."""
    previous: int
    """The version that was, and is `previous` now."""
    finished: bool
    """True: this rollback had been begun before and was only finished."""

    def says(self) -> str:
        """One line for a person."""
        line = f"models:/{self.name}/{self.champion} is {BEST} again; version {self.previous} is {FORMER}"
        return line + (" (finished a rollback that had been interrupted)" if self.finished else "")


def rollback(model: str, reason: str = "") -> RolledBack:
    """Let `champion` and `previous` change places; when and why is recorded on both versions.

    Twice in a row is back where it began. A rollback that was killed in between is finished, not undone, by the next call. A version
    that was rolled back is not promoted again unless that is asked for by name. Raises SonorantError if there is nothing to return
    to, TrackingUnavailable if MLflow does not answer.
    """
    with registry() as store:
        versions = all_versions(store, model)
        if not versions:
            raise SonorantError(f"models:/{model}: has no versions; register a voice first")
        begun = finish(store, model)
        if begun and begun.action == "rollback" and begun.previous is not None:
            return RolledBack(name=model, champion=begun.champion, previous=begun.previous, finished=True)
        aliases = read_aliases(store, model)
        champion, former = aliases.get(BEST), aliases.get(FORMER)
        if champion is None or former is None or champion == former:
            raise SonorantError(
                f"models:/{model}: no version has the alias {FORMER}, so there is nothing to return to; it is set when a version takes "
                f"the place of another {BEST}; there are versions {', '.join(map(str, sorted(versions)))}"
            )
        begin(store, model, Move(action="rollback", champion=former, previous=champion, time=now(), reason=reason))
        return RolledBack(name=model, champion=former, previous=champion, finished=False)
