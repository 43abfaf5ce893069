import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.workspace import bring_back, check_settings, edit, keep_voice, make_workspace
from sonorant.errors import SonorantError
from tasks import params
from tasks.origin import origin_tags
from tests.flows.conftest import dvc
from tests.support.imports import ROOT


def test_a_run_that_is_run_again_gets_a_new_copy_and_loses_nothing_shared(make_project: Callable[..., Path]) -> None:
    root = make_project("project")
    (root / "runs" / "checkpoint").write_text("kept")
    folder = root / "runs" / "workspaces" / "id"
    for steps in (5, 6):
        assert make_workspace(root, folder, {"train_acoustic.steps": steps}) == folder
        assert f"steps: {steps} " in (folder / "params.yaml").read_text()
        assert (folder / "runs" / "checkpoint").read_text() == "kept"
        (folder / "left.txt").write_text("from the run before")
    assert (root / "runs" / "checkpoint").read_text() == "kept"
    assert "steps: 2 " in (root / "params.yaml").read_text()
    make_workspace(root, folder, {"train_acoustic.steps": 7})
    assert not (folder / "left.txt").exists()


def test_a_project_of_another_user_has_no_commit_and_the_remedy_is_told(
    make_project: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    root = make_project("project")
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    assert "git_commit" not in origin_tags(root)
    remedy = f"run: git config --global --add safe.directory {root}"
    assert remedy in caplog.text
    with pytest.raises(SonorantError, match=remedy):
        make_workspace(root, root / "runs" / "workspaces" / "id", {"train_acoustic.steps": 5})


def test_a_path_out_of_the_project_leads_a_copy_to_the_same_place(make_project: Callable[..., Path]) -> None:
    root = make_project("project")
    for path, copied in (("../recordings", str(root.parent / "recordings")), ("corpora/../mine", "corpora/../mine")):
        edit(root / "params.yaml", {"corpus.path": path})
        folder = make_workspace(root, root / "runs" / "workspaces" / "id", {"train_acoustic.steps": 5})
        settings = yaml.safe_load((folder / "params.yaml").read_text())
        assert settings["corpus"]["path"] == copied and settings["train_acoustic"]["steps"] == 5


def test_credentials_of_a_remote_are_copied_for_their_owner_alone(make_project: Callable[..., Path]) -> None:
    root = make_project("project")
    remote = "['remote \"store\"']\n    url = https://localhost/store\n    password = secret\n"
    (root / ".dvc" / "config.local").write_text(remote)
    folder = make_workspace(root, root / "runs" / "workspaces" / "id", {"train_acoustic.steps": 5})
    copied = folder / ".dvc" / "config.local"
    assert "secret" in copied.read_text()
    assert copied.stat().st_mode & 0o077 == 0


SIDE_BY_SIDE = """\
stages:
  evaluate:
    cmd: >-
      mkdir -p reports/families/${voice.family} &&
      echo ${voice.family} > reports/families/${voice.family}/family.json
    outs: ["reports/families/${voice.family}"]
  report:
    cmd: cat reports/families/*/family.json > page.txt
    deps: [reports/families]
    outs: [page.txt]
"""


def test_runs_of_two_families_see_each_other_and_leave_what_is_the_others(make_project: Callable[..., Path]) -> None:
    root = make_project("project", SIDE_BY_SIDE)
    (root / "params.yaml").write_text("voice:\n  family: parallel\n")
    (root / ".gitignore").write_text("/runs/\n/reports/\n")
    dvc(root, "repro")
    assert (root / "page.txt").read_text() == "parallel\n"
    folder = make_workspace(root, root / "runs" / "workspaces" / "id", {"voice.family": "codec_lm"})
    dvc(folder, "repro")
    assert (folder / "page.txt").read_text() == "codec_lm\nparallel\n"
    (folder / "reports/families/parallel/family.json").write_text("changed by a run it is not of\n")
    (folder / "reports/families/third").mkdir()
    (folder / "reports/families/third/family.json").write_text("as it was when this run began\n")
    bring_back(folder, root)
    assert not (root / "reports/families/third").exists()
    dvc(root, "repro")
    assert (root / "page.txt").read_text() == "codec_lm\nparallel\n"
    (root / "reports/families/codec_lm/family.json").write_text("may be written\n")

    again = make_workspace(root, root / "runs" / "workspaces" / "again", {"voice.family": "codec_lm"})
    assert not (again / "reports/families/codec_lm").exists(), "its own stage writes it"
    assert (again / "reports/families/parallel").is_dir() and not (again / "reports/families").is_symlink()


def test_a_voice_is_kept_under_its_name_and_cleaning_leaves_it(tmp_path: Path) -> None:
    voice = tmp_path / "runs/workspaces/id/artifacts/voice"
    voice.mkdir(parents=True)
    (voice / "voice.json").write_text("{}")
    (voice / "voice.json").chmod(0o444)  # by DVC
    kept = {keep_voice(voice, tmp_path, "sonorant-my_voice", "/a/my voice") for _ in range(2)}
    assert kept == {tmp_path / "voices/my-voice"}
    (voice / "voice.json").unlink()
    with pytest.raises(SonorantError, match=r"voices/my-voice: .* another corpus's voice; move it, or"):
        keep_voice(voice, tmp_path, "sonorant-my_voice", "/b/my voice")
    subprocess.run(["make", "-s", "-f", ROOT / "Makefile", "clean"], cwd=tmp_path, check=True)
    assert not voice.exists() and (tmp_path / "voices/my-voice/voice.json").exists()


def test_settings_are_written_as_they_are_read_and_other_lines_stay(tmp_path: Path) -> None:
    before = (ROOT / "params.yaml").read_text(encoding="utf-8")
    file = tmp_path / "params.yaml"
    file.write_text(before, encoding="utf-8")
    values = {
        "train_vocoder.learning_rate": 4e-05,
        "acoustic.channels": 96,
        "verify.runtimes": ["torch"],
        "training.precision": "bf16",
        "train_vocoder.adversarial": False,
        "prepare.decisions": "corpora/my file.csv",
        "promote.max_rtf.parallel": 0.01,
    }
    edit(file, values)
    after = file.read_text(encoding="utf-8")
    for key, value in values.items():
        here: Any = params.read(file)
        for part in key.split("."):
            here = here[part]
        assert (here, type(here)) == (value, type(value)), key
    changed = [old for old, new in zip(before.splitlines(), after.splitlines(), strict=True) if old != new]
    assert len(changed) == len(values), changed
    edit(file, {"codec.levels": [8, 8, 8], "verify.int8_size": 0.5})
    assert yaml.safe_load(file.read_text())["codec"]["levels"] == [8, 8, 8], "a key that the file left out"


def test_settings_are_checked_with_and_without_overrides(tmp_path: Path) -> None:
    file = tmp_path / "params.yaml"
    whole = (ROOT / "params.yaml").read_text(encoding="utf-8")
    file.write_text(whole)
    check_settings(file, {})
    check_settings(file, {"evaluate.hear": "all"})
    for overrides, says in (
        ({"evaluate.hear": "int8"}, r"params\.yaml with the overrides: key 'evaluate\.hear'"),
        ({"train_acoustic.steps": "many"}, r"train_acoustic\.steps"),
        ({"train_acoustic.stepz": 5}, r"'train_acoustic\.stepz'; did you mean 'train_acoustic\.steps'"),
        ({"train_acoustic": 5}, r"cannot override the section 'train_acoustic'; override one of train_acoustic\.steps"),
    ):
        with pytest.raises(SonorantError, match=says):
            check_settings(file, overrides)
    assert file.read_text() == whole
    file.write_text(whole.replace("\npromote:", "\npromotes:"))
    with pytest.raises(SonorantError, match=r"params\.yaml: unknown section 'promotes'"):
        check_settings(file, {})


def test_paths_that_git_ignores_and_settings_name_are_there_too(make_project: Callable[..., Path]) -> None:
    root = make_project("project", SIDE_BY_SIDE)
    (root / "params.yaml").write_text("voice:\n  family: parallel\nstore:\n  place: kept/store\n  cache: kept/absent\n")
    (root / ".gitignore").write_text("/runs/\n/reports/\n/kept/\n")
    (root / "kept/store").mkdir(parents=True)
    (root / "kept/store/shard").write_text("whole")
    folder = make_workspace(root, root / "runs" / "workspaces" / "id", {"voice.family": "codec_lm"})
    assert (folder / "kept/store/shard").read_text() == "whole"
    assert not (folder / "kept/absent").exists()
