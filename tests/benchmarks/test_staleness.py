"""A result is older than its code when code it was measured with has changed, not when a comment has."""

import json
from pathlib import Path

import pytest

from benchmarks import staleness


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A benchmark that imports two modules, one of which starts another, and its result."""
    monkeypatch.setattr(staleness, "ROOT", tmp_path)
    for name, text in {
        "benchmarks/speed.py": "from infra.server import served\nfrom sonorant import fast\n",
        "infra/server.py": 'COMMAND = ["-m", "sonorant.worker"]\n\ndef served(): ...\n',
        "sonorant/fast.py": '"""Fast."""\n\nSPEED = 1  # a second\n',
        "sonorant/worker.py": "WORK = 1\n",
        "sonorant/other.py": "OTHER = 1\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "benchmarks/results").mkdir()
    result = {"code": staleness.code_of("speed_of_one")}
    (tmp_path / "benchmarks/results/speed_of_one.json").write_text(json.dumps(result))
    return tmp_path


def test_a_comment_or_code_elsewhere_makes_no_result_old(project: Path) -> None:
    (project / "sonorant/fast.py").write_text('"""Faster."""\n\nSPEED = 1\n')
    (project / "sonorant/other.py").write_text("OTHER = 2\n")
    assert staleness.told(project / "benchmarks/results") == []


@pytest.mark.parametrize("name", ["sonorant/fast.py", "infra/server.py", "sonorant/worker.py", "benchmarks/speed.py"])
def test_changed_code_is_named(project: Path, name: str) -> None:
    file = project / name
    file.write_text(file.read_text() + "MORE = 2\n")
    [line] = staleness.told(project / "benchmarks/results")
    assert line == f"benchmarks/results/speed_of_one.json is older than {name}"


def test_a_result_that_records_no_code_is_of_unknown_age(project: Path) -> None:
    (project / "benchmarks/results/old.json").write_text("{}")
    [line] = staleness.told(project / "benchmarks/results")
    assert line.endswith("written before results recorded their code: old")
