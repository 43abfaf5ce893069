import dataclasses
import json
import os
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from sonorant.errors import SonorantError
from sonorant.files import locked
from sonorant.registry import promote, register, rollback
from sonorant.registry.aliases import MOVE_TAG, Move, begin, now
from sonorant.registry.tracking import open_store
from tests.registry.conftest import aliases, tags
from tests.registry.planted import CONFIG, GATES, figures, renamed, write_report
from tests.support.command import error_line, run_command
from tests.support.imports import ROOT

KILLED = """
import os, sys
from mlflow.tracking import MlflowClient
from sonorant.registry import rollback
left = int(sys.argv[1])
for name in ("set_registered_model_tag", "set_model_version_tag", "set_registered_model_alias"):
    def step(*given, real=getattr(MlflowClient, name), **named):
        global left
        if left == 0:
            os._exit(9)
        left -= 1
        return real(*given, **named)
    setattr(MlflowClient, name, step)
rollback("test-voice", "it hums")
"""
"""Code of a rollback that is killed before its n-th write."""


def test_the_former_champion_returns_and_both_versions_say_why(two: Path) -> None:
    done = rollback("test-voice", "it hums")
    assert done.says() == "models:/test-voice/1 is champion again; version 2 is previous"
    assert aliases() == {"challenger": 2, "champion": 1, "previous": 2}
    assert tags(2)["rolled_back"].endswith("to version 1: it hums")
    assert tags(1)["returned"].endswith("from version 2: it hums")
    assert "alias_move" not in open_store().client.get_registered_model("test-voice").tags

    rollback("test-voice")  # a second one undoes it
    assert aliases() == {"challenger": 2, "champion": 2, "previous": 1}
    assert "rolled_back" in tags(1) and "rolled_back" not in tags(2)


def test_a_version_that_was_rolled_back_returns_only_where_a_person_says_so(two: Path) -> None:
    rollback("test-voice", "it hums")
    verdict = promote("test-voice", GATES, 2)
    assert [gate.name for gate in verdict.gates if not gate.passed] == ["rolled_back"]
    assert "it hums" in verdict.gates[0].reason and aliases()["champion"] == 1
    assert promote("test-voice", GATES, 2, again=True).passed
    assert aliases() == {"challenger": 2, "champion": 2, "previous": 1}
    assert "rolled_back" not in tags(2)


@pytest.mark.parametrize(
    "writes", [pytest.param(writes, marks=pytest.mark.long if writes != 2 else ()) for writes in range(5)]
)
def test_killed_in_between_nothing_is_lost_and_the_next_call_finishes(two: Path, project: Path, writes: int) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    killed = subprocess.run([sys.executable, "-c", KILLED, str(writes)], cwd=project, env=environment, check=False)
    assert killed.returncode == 9
    assert aliases()["champion"] in (1, 2), "there is a champion at every moment"
    done = rollback("test-voice", "it hums")
    assert done.finished == (writes > 0)
    assert aliases() == {"challenger": 2, "champion": 1, "previous": 2}
    assert tags(2)["rolled_back"].endswith("to version 1: it hums")


def test_a_last_answer_that_is_lost_does_not_undo_the_rollback_when_it_is_repeated(
    two: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.tracking import MlflowClient

    delete = MlflowClient.delete_registered_model_tag

    def lose_the_answer(client: MlflowClient, *given: str) -> None:
        delete(client, *given)
        raise ConnectionError("the answer is lost")

    monkeypatch.setattr(MlflowClient, "delete_registered_model_tag", lose_the_answer)
    assert rollback("test-voice", "it hums").champion == 1
    assert aliases() == {"challenger": 2, "champion": 1, "previous": 2}


@pytest.mark.parametrize("meanwhile", ["promoted", "rolled back", "cut off"])
def test_a_champion_that_came_while_it_waited_is_not_rolled_back(
    two: Path, project: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    register(renamed(two, project / "third"), figures(), write_report(project / "report"), CONFIG, {})
    move = Move(action="promote", champion=3, previous=2, time=now())

    def locked_after_another(path: Path) -> AbstractContextManager[None]:
        monkeypatch.setattr("sonorant.registry.aliases.locked", locked)
        if meanwhile == "rolled back":
            rollback("test-voice")
        elif meanwhile == "promoted":
            begin(open_store(), "test-voice", move)
        return locked(path)

    if meanwhile == "cut off":  # completes the unnoticed promotion
        open_store().client.set_registered_model_tag("test-voice", MOVE_TAG, json.dumps(dataclasses.asdict(move)))
    monkeypatch.setattr("sonorant.registry.aliases.locked", locked_after_another)
    best = 1 if meanwhile == "rolled back" else 3
    with pytest.raises(
        SonorantError, match=f"champion moved from version 2 to version {best} .* to replace version {best}"
    ):
        rollback("test-voice")
    assert aliases() == {"challenger": 3, "champion": best, "previous": 2}
    assert rollback("test-voice").previous == best


def test_nothing_to_return_to_is_one_clear_line(voice_bundle: Path, project: Path) -> None:
    with pytest.raises(SonorantError, match="has no versions; run: sonorant register"):
        rollback("test-voice")
    register(voice_bundle, figures(), project / "absent", CONFIG, {})
    promote("test-voice", GATES)
    (project / "params.yaml").write_text(json.dumps({"register": dataclasses.asdict(CONFIG)}))
    done = run_command("tasks.rollback", "--reason", "none")
    assert error_line(done).startswith("models:/test-voice has no previous champion") and done.stdout == ""
