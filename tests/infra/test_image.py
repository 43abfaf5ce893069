"""Checks of the training image's Dockerfile that do not need a build."""

import fnmatch
import re
import subprocess

from tests.support.imports import ROOT

DOCKERFILE = ROOT / "infra/Dockerfile"
KEYWORDS = {"ARG", "FROM", "ENV", "RUN", "WORKDIR", "COPY", "USER", "CMD"}


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in text.splitlines() if line.strip()]


def test_the_base_is_pinned() -> None:
    assert {keyword for keyword, _ in instructions()} <= KEYWORDS
    (base,) = [value for keyword, value in instructions() if keyword == "ARG" and value.startswith("BASE=")]
    assert re.fullmatch(r"BASE=nvidia/cuda:\d+\.\d+\.\d+-base-ubuntu\d\d\.\d\d", base)
    assert ("FROM", "${BASE}") in instructions()


def test_it_runs_as_the_user_that_the_manifests_name() -> None:
    keywords = [keyword for keyword, _ in instructions()]
    assert ("USER", "1000:1000") in instructions()
    assert keywords.index("USER") > max(place for place, keyword in enumerate(keywords) if keyword in ("RUN", "COPY"))
    assert "runAsUser: 1000" in (ROOT / "infra/kubernetes/training/train-job.yaml").read_text()


def test_nothing_tracked_is_left_out_and_no_result_or_credential_goes_in() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    lines = (ROOT / "infra/Dockerfile.dockerignore").read_text().splitlines()
    ignored = {line for line in lines if line and not line.startswith("#")}

    def matches(name: str, rule: str) -> bool:
        return fnmatch.fnmatch(name, rule) or name.startswith(f"{rule}/")

    exceptions = [rule.removeprefix("!") for rule in ignored if rule.startswith("!")]
    for name in tracked:
        left_out = [rule for rule in ignored if matches(name, rule)]
        kept = any(matches(name, rule) for rule in exceptions)
        assert not left_out or kept or name.startswith(".ci/"), name
    results = {line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines() if line.startswith("/")}
    assert results | {".venv", ".git/config", ".dvc/config.local"} <= ignored
