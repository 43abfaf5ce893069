"""Promote a registered voice to `champion`: check the gates, record the verdict, move the aliases."""

import dataclasses
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sonorant.errors import SonorantError
from sonorant.registry.aliases import (
    BEST,
    FORMER,
    GONE_TAG,
    NEWEST,
    Move,
    all_versions,
    begin,
    finish,
    named,
    now,
    read_aliases,
    registry,
)
from sonorant.registry.champion_gates import judge_beside, read_evidence
from sonorant.registry.gates import Gate, judge_alone
from sonorant.registry.limits import PromoteConfig
from sonorant.registry.tracking.mlflow_store import Store, TrackingUnavailable

VERDICT = "verdict.json"
GATE_TAG, VERDICT_TAG = "gate.", "verdict"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    name: str
    version: int
    gates: tuple[Gate, ...]
    champion: int | None
    """Former champion; None if there was none or it is this version."""
    reigning: bool
    """Whether the version is already `champion`, so that no alias moves."""
    without_champion: str
    """Reason for skipping the comparison with the champion; empty if compared."""
    time: str
    """UTC time in ISO 8601."""

    @property
    def passed(self) -> bool:
        return all(gate.passed for gate in self.gates)

    def outcome(self) -> str:
        if self.passed:
            return f"is {BEST}" + (f"; version {self.champion} is {FORMER}" if self.champion else "")
        refused = ", ".join(gate.name for gate in self.gates if not gate.passed)
        if self.reigning:
            return f"stays {BEST}, although it now fails {refused}; to replace it, run python -m tasks.rollback"
        return f"is refused by {refused}; {BEST} does not move"

    def says(self) -> list[str]:
        lines = [f"gate {gate.name} {gate.says()}" for gate in self.gates]
        return [*lines, f"models:/{self.name}/{self.version} {self.outcome()}"]

    def rows(self) -> list[dict[str, str]]:
        return [
            {
                "gate": gate.name,
                "verdict": "passed" if gate.passed else "failed",
                "figure": _shown(gate.value),
                "95 % interval": " to ".join(map(_shown, gate.interval)) if gate.interval else "",
                "limit": _shown(gate.limit),
                "in words": gate.reason,
            }
            for gate in self.gates
        ]


def promote(
    model: str, config: PromoteConfig, version: int | None = None, *, without_champion: str = "", again: bool = False
) -> Verdict:
    """Check the gates for a version (None means alias `challenger`), promote it if they pass, and record the verdict.

    `without_champion` is the reason for skipping the comparison; `again` accepts a version that was rolled back. The
    reigning champion is checked only by the gates without comparison, and keeps the verdict of its promotion. Raises
    SonorantError for an unknown version, TrackingUnavailable if MLflow does not answer or the champion moved.
    """
    with registry() as store:
        versions = all_versions(store, model)
        if versions:
            finish(store, model)
        aliases = read_aliases(store, model) if versions else {}
        wanted = aliases.get(NEWEST) if version is None else version
        chosen = None if wanted is None else versions.get(wanted)
        if chosen is None:
            known = ", ".join(map(str, sorted(versions))) or "none"
            asked = NEWEST if version is None else version
            raise SonorantError(
                f"models:/{model} has no version {asked} (versions: {known}); choose one of these or register a voice"
            )
        number, best = int(chosen.version), aliases.get(BEST)
        former = best if best != number else None
        gates = _judge(store, chosen, versions.get(former or 0), config, without_champion)
        gates = gates if again else _never_again(chosen) + gates
        verdict = Verdict(
            name=model,
            version=number,
            gates=gates,
            champion=former,
            reigning=number == best,
            without_champion=without_champion,
            time=now(),
        )
        if not verdict.reigning:
            _keep(store, chosen, verdict)
            _check_unmoved(store, verdict)
            if verdict.passed:
                begin(store, model, Move(action="promote", champion=number, previous=former, time=verdict.time))
        return verdict


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _judge(store: Store, chosen: Any, champion: Any, config: PromoteConfig, without_champion: str) -> tuple[Gate, ...]:
    with tempfile.TemporaryDirectory() as folder:
        voice = read_evidence(store, chosen, Path(folder))
        gates = judge_alone(voice.metrics, voice.bundle.description, voice.shipped.candidate, config)
        if champion is None or without_champion:
            return gates
        try:
            beside = read_evidence(store, champion, Path(folder))
        except TrackingUnavailable:
            raise
        except SonorantError as error:
            why = f"not compared: version {champion.version} cannot be read: {error}"
            return (*gates, Gate(name="champion", passed=False, reason=why))
        return gates + judge_beside(voice, beside, config)


def _never_again(chosen: Any) -> tuple[Gate, ...]:
    gone = chosen.tags.get(GONE_TAG)
    reason = f"was rolled back {gone}; use --again to judge it again"
    return (Gate(name=GONE_TAG, passed=False, reason=reason),) if gone else ()


def _keep(store: Store, chosen: Any, verdict: Verdict) -> None:
    tags = {f"{GATE_TAG}{gate.name}": gate.says() for gate in verdict.gates}
    tags[VERDICT_TAG] = f"{verdict.time} {verdict.outcome()}"
    if verdict.without_champion:
        tags["without_champion"] = verdict.without_champion
    for key in chosen.tags:  # remove gates of an earlier verdict
        if key.startswith(GATE_TAG) and key not in tags:
            store.client.delete_model_version_tag(chosen.name, str(chosen.version), key)
    for key, value in tags.items():
        store.client.set_model_version_tag(chosen.name, str(chosen.version), key, value)
    store.client.log_dict(chosen.run_id, dataclasses.asdict(verdict) | {"passed": verdict.passed}, VERDICT)


def _check_unmoved(store: Store, verdict: Verdict) -> None:
    """Raise TrackingUnavailable, and tag the version, if another clone of the project moved `champion`. The lock covers
    only this folder."""
    best = read_aliases(store, verdict.name).get(BEST)
    if best == verdict.champion:
        return
    moved = f"from {named(verdict.champion)} to {named(best)}"
    line = f"{BEST} moved {moved} while {verdict.version} was judged; promote it again"
    store.client.set_model_version_tag(verdict.name, str(verdict.version), VERDICT_TAG, f"{verdict.time} {line}")
    raise TrackingUnavailable(f"models:/{verdict.name}: {line}")
