"""Move the aliases `challenger`, `champion` and `previous`. MLflow moves one alias at a time, so a tag on the model
records the whole move first; after a crash the next process completes it."""

import dataclasses
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from sonorant.errors import SonorantError
from sonorant.files import locked
from sonorant.registry.tracking.mlflow_store import DEFAULT_DATABASE, Store, answering

NEWEST, BEST, FORMER = "challenger", "champion", "previous"
MOVE_TAG = "alias_move"
"""Tag of the registered model that holds a pending move."""
GONE_TAG, BACK_TAG = "rolled_back", "returned"
"""Tags of both versions in a rollback: time, reason and number of the other version."""


@dataclass(frozen=True, kw_only=True)
class Move:
    action: Literal["promote", "rollback"]
    champion: int
    previous: int | None
    """Champion before the move, which becomes `previous`; None if there was none."""
    time: str
    """UTC time in ISO 8601."""
    reason: str = ""


LOCK = DEFAULT_DATABASE.with_name("registry.lock")


@contextmanager
def registry(create: bool = False) -> Iterator[Store]:
    """Open the store and lock it for processes in this folder. Clones of the project may write to the same MLflow, so
    callers check again before writing. Raises the errors of `answering`."""
    with answering("registry", create) as store, locked(LOCK):
        yield store


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def named(version: int | None) -> str:
    return "no version" if version is None else f"version {version}"


def all_versions(store: Store, model: str) -> dict[int, Any]:
    return {int(version.version): version for version in store.client.search_model_versions(f"name='{model}'")}


def read_aliases(store: Store, model: str) -> dict[str, int]:
    return {name: int(version) for name, version in store.client.get_registered_model(model).aliases.items()}


def begin(store: Store, model: str, move: Move) -> None:
    store.client.set_registered_model_tag(model, MOVE_TAG, json.dumps(dataclasses.asdict(move)))
    _carry_out(store, model, move)


def finish(store: Store, model: str) -> Move | None:
    """Complete an interrupted move, if any, and return it. The model must exist."""
    noted = store.client.get_registered_model(model).tags.get(MOVE_TAG)
    if not noted:
        return None
    move = Move(**json.loads(noted))
    _carry_out(store, model, move)
    return move


def _carry_out(store: Store, model: str, move: Move) -> None:
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
    except Exception:  # The write may have succeeded without an answer; repeating a rollback would undo it.
        if MOVE_TAG in client.get_registered_model(model).tags:
            raise


@dataclass(frozen=True, kw_only=True)
class RolledBack:
    name: str
    champion: int
    previous: int
    finished: bool
    """Whether this call only completed an interrupted rollback."""

    def says(self) -> str:
        line = f"models:/{self.name}/{self.champion} is {BEST} again; version {self.previous} is {FORMER}"
        return line + (" (completed an interrupted rollback)" if self.finished else "")


def rollback(model: str, reason: str = "") -> RolledBack:
    """Swap `champion` and `previous`, and record the time and reason on both versions.

    A second call swaps them back, unless it completes an interrupted rollback. Raises SonorantError if there is no
    previous version or `champion` moves while waiting for the lock, TrackingUnavailable if MLflow does not answer.
    """
    with answering("registry") as store:
        versions = all_versions(store, model)
        if not versions:
            raise SonorantError(f"models:/{model} has no versions; run: sonorant register")
        seen = _reigning(store, model)  # before the lock, so that a promotion that held it is not undone
        with locked(LOCK):
            begun = finish(store, model)
            if begun and begun.action == "rollback" and begun.previous is not None:
                return RolledBack(name=model, champion=begun.champion, previous=begun.previous, finished=True)
            aliases = read_aliases(store, model)
            champion, former = aliases.get(BEST), aliases.get(FORMER)
            if champion is None or former is None or champion == former:
                known = ", ".join(map(str, sorted(versions)))
                raise SonorantError(f"models:/{model} has no {FORMER} champion; promote one of its versions: {known}")
            if champion != seen:
                raise SonorantError(
                    f"models:/{model}: not rolled back, because {BEST} moved from {named(seen)} to {named(champion)} "
                    f"meanwhile; roll back again to replace {named(champion)}"
                )
            begin(store, model, Move(action="rollback", champion=former, previous=champion, time=now(), reason=reason))
            return RolledBack(name=model, champion=former, previous=champion, finished=False)


def _reigning(store: Store, model: str) -> int | None:
    found = store.client.get_registered_model(model)
    if noted := found.tags.get(MOVE_TAG):
        return Move(**json.loads(noted)).previous
    best = found.aliases.get(BEST)
    return None if best is None else int(best)
