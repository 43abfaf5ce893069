"""What errors and help tell people to run exists."""

import argparse
import json
import re
import tomllib
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from sonorant import errors
from tests import test_docs
from tests.support.command import run_command
from tests.support.imports import ROOT

CODE = "\n".join(
    file.read_text(encoding="utf-8")
    for room in ("sonorant", "tasks", "flows", "infra")
    for file in sorted((ROOT / room).rglob("*.py"))
)
TEXT = re.sub(r"\{[^{}]*\}", "1", re.sub(r'"\s*\n\s*f?"', "", CODE))
"""Strings in one piece; what is inserted is 1."""
COMMAND = r"(?:sonorant (?!say)|python -m |dvc repro |make )[^;,()|<>\n\"`&]+?"
HINTS = sorted(set(re.findall(rf"(?:\b(?:run|with|by|or): |^  )({COMMAND})(?=[;,()|<>\n\"`&]|  )", TEXT, re.MULTILINE)))


@pytest.mark.parametrize("hint", HINTS)
def test_a_hint_is_a_command_that_parses(
    hint: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    test_docs.test_the_command_exists("", hint, tmp_path, request)
    parse = argparse.ArgumentParser.parse_args

    def only_parse(parser: argparse.ArgumentParser, *given: object) -> None:
        raise SystemExit(parse(parser, *given) is None)

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", only_parse)
    words = hint.removeprefix("python -m ").split()
    for module in test_docs.asked(hint.split())[:1]:
        first = 1 + (words[0] == "sonorant" and module != "sonorant.cli.main")
        assert run_command(module, *words[first:], cwd=ROOT).returncode == 0


def test_an_extra_is_installed_from_the_clone_or_from_where_the_wheel_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = "pip install -c {0}/requirements.lock -e '{0}[gpu]'"
    for place, command in ((ROOT, clone.format(".")), (ROOT / "tests" / "text", clone.format("../.."))):
        monkeypatch.chdir(place)
        assert errors.install("gpu") == command
    monkeypatch.chdir(tmp_path)
    assert errors.install("gpu") == clone.format(".") + ", in the clone of Sonorant", "no folder of this machine"
    monkeypatch.setattr(errors, "__file__", "/nowhere/sonorant/errors.py")
    for url, command in (
        ("file:///home/s.whl", "'./s.whl[gpu]', in the folder of that file"),
        ("https://host/s.whl", "'sonorant[gpu] @ https://host/s.whl'"),
        (None, "'sonorant[gpu]'"),
    ):
        text = json.dumps({"url": url}) if url else None
        monkeypatch.setattr(metadata, "distribution", lambda _, text=text: SimpleNamespace(read_text=lambda _: text))
        assert errors.install("gpu") == f"pip install {command}"


def test_every_hint_to_install_an_extra_names_one() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(re.findall(r"""\b(?:install|needing)\(["']([\w-]+)["']""", CODE)) <= set(extras)
    assert CODE.count("sonorant[") == 1, "in sonorant/errors.py"
