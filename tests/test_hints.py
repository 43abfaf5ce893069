"""What errors and help tell people to run exists."""

import argparse
import json
import re
import tomllib
from importlib import metadata
from pathlib import Path

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
    if module := test_docs.asked(hint.split()):
        first = 1 + (words[0] == "sonorant" and module[0] != "sonorant.cli.main")
        done = run_command(module[0], *words[first:], cwd=ROOT)
        assert done.returncode == 0, done.stderr


def test_the_command_that_installs_an_extra_fits_where_the_package_came_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert errors.install("gpu") == "pip install -c ./requirements.lock -e '.[gpu]'"
    monkeypatch.setattr(errors, "__file__", str(tmp_path / "sonorant" / "errors.py"))
    git = {"url": "https://a.org", "vcs_info": {"vcs": "git"}}
    for origin, source in (({"url": "file:///s.whl"}, " @ file:///s.whl"), (git, " @ git+https://a.org"), ({}, "")):
        found = argparse.Namespace(read_text=lambda name, text=json.dumps(origin): text)
        monkeypatch.setattr(metadata, "distribution", lambda name, found=found: found)
        assert errors.install("gpu") == f"pip install 'sonorant[gpu]{source}'"


def test_every_hint_to_install_an_extra_names_one() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    named = re.findall(r"""\b(?:install|needing)\(["']([\w-]+)["']""", CODE)
    assert len(named) > 15 and set(named) <= set(extras)
    assert CODE.count("sonorant[") == 1, "in sonorant/errors.py"
