"""The aliases `challenger`, `champion` and `previous`. MLflow moves one alias at a time, so a move is first noted on
the model; if this process is killed, the next one finishes it."""

import dataclasses
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from sonorant.errors import SonorantError
from sonorant.files import locked
from sonorant.registry.tracking.mlflow_store import DEFAULT_DATABASE, Store, answering

NEWEST, BEST, FORMER = "challenger", "champion", "previous"
MOVE_TAG = "alias_move"
"""Tag of the registered model while aliases move: the move."""
GONE_TAG, BACK_TAG = "rolled_back", "returned"
"""Tags of versions: when, why and for which other version one was rolled back or returned."""


@dataclass(frozen=True, kw_only=True)
class Move:
    """A move of the alias `champion` from one version to another."""

    action: Literal["promote", "rollback"]
    champion: int
    """The version that becomes `champion`."""
    previous: int | None
    """The version that was `champion` and becomes `previous`; None = there was none."""
    time: str
    """UTC, ISO 8601."""
    reason: str = ""
    """Why, if a person gave a reason."""


@contextmanager
def registry() -> Iterator[Store]:
    """The store, for one process of this folder at a time. Another clone of the project on the same MLflow is not held
    back: whoever writes looks again just before. Raises as `sonorant.registry.tracking.mlflow_store.answering`."""
    with answering("registry") as store, _one_at_a_time():
        yield store


def _one_at_a_time() -> AbstractContextManager[None]:
    return locked(DEFAULT_DATABASE.with_name("registry.lock"))


def now() -> str:
    """The time for a record: UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def named(version: int | None) -> str:
    """What `champion` is, in words."""
    return "no version" if version is None else f"version {version}"


def all_versions(store: Store, model: str) -> dict[int, Any]:
    """Versions by number; empty if there is no such model."""
    return {int(version.version): version for version in store.client.search_model_versions(f"name='{model}'")}


def read_aliases(store: Store, model: str) -> dict[str, int]:
    """Aliases of an existing model, by name."""
    return {name: int(version) for name, version in store.client.get_registered_model(model).aliases.items()}


def begin(store: Store, model: str, move: Move) -> None:
    """Move the aliases and record a rollback on both versions."""
    store.client.set_registered_model_tag(model, MOVE_TAG, json.dumps(dataclasses.asdict(move)))
    _carry_out(store, model, move)


def finish(store: Store, model: str) -> Move | None:
    """Finish an interrupted move and return it. The model must exist."""
    noted = store.client.get_registered_model(model).tags.get(MOVE_TAG)
    if not noted:
        return None
    move = Move(**json.loads(noted))
    _carry_out(store, model, move)
    return move


def _carry_out(store: Store, model: str, move: Move) -> None:
    """Every step can be repeated with the same result."""
    client, because = store.client, f": {move.reason}" if move.reason else ""
    if move.action == "rollback":
        gone, back = f"{move.time} to version {move.champion}", f"{move.time} from version {move.previous}"
        client.set_model_version_tag(model, str(move.previous), GONE_TAG, gone + because)
        client.set_model_version_tag(model, str(move.champion), BACK_TAG, back + because)
    if GONE_TAG in client.get_model_version(model, str(move.champion)).tags:
        client.delete_model_version_tag(model, str(move.champion), GONE_TAG)
    client.set_registered_model_alias(model, BEST, str(move.champion))
    if move.previous is not None:
        client.set_registered_model_alias(model, FORMER, str(move.previous))
    try:
        client.delete_registered_model_tag(model, MOVE_TAG)
    except Exception:  # the answer may be lost where the work is done: a rollback that is repeated then would undo it
        if MOVE_TAG in client.get_registered_model(model).tags:
            raise


@dataclass(frozen=True, kw_only=True)
class RolledBack:
    name: str
    champion: int
    """The version that is `champion` again."""
    previous: int
    """The version that was `champion`, now `previous`."""
    finished: bool
    """True: this only finished a rollback that had been interrupted."""

    def says(self) -> str:
        """One line for a person."""
        line = f"models:/{self.name}/{self.champion} is {BEST} again; version {self.previous} is {FORMER}"
        return line + (" (finished a rollback that had been interrupted)" if self.finished else "")


def rollback(model: str, reason: str = "") -> RolledBack:
    """Swap `champion` and `previous`; when and why is recorded on both versions.

    Twice in a row restores the first state. The next call finishes an interrupted rollback instead of undoing it. A
    version that was rolled back is promoted again only by name. Raises SonorantError if there is nothing to return to,
    or if `champion` moves while this waits for another process; TrackingUnavailable if MLflow does not answer.
    """
    with answering("registry") as store:
        versions = all_versions(store, model)
        if not versions:
            raise SonorantError(f"models:/{model}: has no versions; register a voice first")
        seen = _reigning(store, model)  # before the lock: a promotion that it waits for is not what is to be undone
        with _one_at_a_time():
            begun = finish(store, model)
            if begun and begun.action == "rollback" and begun.previous is not None:
                return RolledBack(name=model, champion=begun.champion, previous=begun.previous, finished=True)
            aliases = read_aliases(store, model)
            champion, former = aliases.get(BEST), aliases.get(FORMER)
            if champion is None or former is None or champion == former:
                raise SonorantError(
                    f"models:/{model}: no version has the alias {FORMER}, so there is nothing to return to; it is set "
                    f"when one {BEST} replaces another; there are versions {', '.join(map(str, sorted(versions)))}"
                )
            if champion != seen:
                raise SonorantError(
                    f"models:/{model}: {BEST} was {named(seen)} when this rollback began and is {named(champion)} "
                    f"now, so nothing was rolled back; look which is to go, and roll back again if it is {champion}"
                )
            begin(store, model, Move(action="rollback", champion=former, previous=champion, time=now(), reason=reason))
            return RolledBack(name=model, champion=former, previous=champion, finished=False)


def _reigning(store: Store, model: str) -> int | None:
    """The champion that the caller knows of: while a move is under way or was cut off, the one before it."""
    found = store.client.get_registered_model(model)
    if noted := found.tags.get(MOVE_TAG):
        return Move(**json.loads(noted)).previous
    best = found.aliases.get(BEST)
    return None if best is None else int(best)
