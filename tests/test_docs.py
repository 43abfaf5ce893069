"""Every documented command exists; the quick ones run."""

import re
import shlex
import subprocess
import sys
from functools import cache
from itertools import takewhile
from pathlib import Path

import pytest
import yaml

from sonorant.cli.pipeline import PROGRAMS
from tests.support.command import run_command
from tests.support.imports import ROOT

DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]
LOG = ROOT / "docs" / "log"
NEEDS_MORE = "# needs "
"""Mark of a command that needs other hardware."""
OTHERS = {"git", "source", "mlflow", "bash", "pip", "export"}
"""Run by other tests (tests/registry) or by CI."""


def commands(marked: bool = False) -> list[tuple[str, str]]:
    """Pages and commands, either those that run here or the marked ones."""
    found = []
    for page in PAGES:
        for block in re.findall(r"```bash\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
            lines = [line for line in block.splitlines() if line.strip() and (NEEDS_MORE in line) is marked]
            found += [(page.name, line.split(" # ")[0].strip()) for line in lines]
    return found


def words_of(command: str) -> list[str]:
    words = shlex.split(command)
    while "=" in words[0] and not words[0].startswith("-"):
        words = words[1:]
    return words


def asked(words: list[str]) -> tuple[str, ...]:
    """Our program and subcommands; empty for other programs."""
    if words[0] == "prefect":
        return tuple(words[: 2 if words[1] == "deploy" else 3])
    if words[:2] == ["python", "-m"]:
        return tuple(words[2:4] if words[2] in ("dask", "benchmarks") else words[2:3])
    if words[0] != "sonorant":
        return ()
    if words[1] in ("plan", "review", *PROGRAMS):  # modules of tasks/
        return (f"tasks.{words[1]}",)
    return (f"flows.{words[1]}", words[2]) if words[1] in ("tune", "curve") else ("sonorant.cli.main", words[1])


@cache
def options_of(*program: str) -> set[str]:
    if program[0] == "prefect":  # in a separate process, because it changes yaml's writer
        command = [sys.executable, "-m", *program, "--help"]
        done = subprocess.run(command, capture_output=True, text=True)
    else:
        done = run_command(*program, "--help")
    assert done.returncode == 0, done.stderr
    return set(re.findall(r"--[\w-]+", done.stdout))


def deployments() -> set[str]:
    files = (ROOT / "prefect.yaml", ROOT / "infra/kubernetes/prefect.yaml")
    found = [each for file in files for each in yaml.safe_load(file.read_text(encoding="utf-8"))["deployments"]]
    return {f"{each['entrypoint'].split(':')[1].replace('_', '-')}/{each['name']}" for each in found}


def check_arguments(words: list[str]) -> None:
    """Check a command's options, files and deployments."""
    options = {word.split("=")[0] for word in words if word.startswith("--")}
    assert options <= options_of(*asked(words))
    assert all((ROOT / name).is_file() for name in re.findall(r"(?:infra|tuning)/\S+\.(?:yaml|json)", " ".join(words)))
    if words[:3] == ["prefect", "deployment", "run"]:
        assert words[3] in deployments()


@pytest.mark.parametrize(("page", "command"), commands())
def test_the_command_exists(page: str, command: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    words = words_of(command)
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    elif words[:2] == ["dvc", "repro"]:
        stages = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
        assert {word for word in words[2:] if not word.startswith("-")} <= set(stages)
    elif words[0] == "dvc":
        assert options_of(*words[:3])
    elif words[:2] == ["sonorant", "say"]:
        if any(word.startswith("models:/") for word in words):
            pytest.skip("needs a registry: tests/cli/test_cli.py speaks from one")
        voice_bundle = request.getfixturevalue("voice_bundle")
        words = [str(voice_bundle) if word == "artifacts/voice" else word for word in words[1:]]
        command = [sys.executable, "-m", "sonorant.cli.main", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "morning.wav").stat().st_size > 1000
    elif words[:2] == ["python", "-c"]:
        compile(words[2], page, "exec")
    elif words[:3] == ["python", "-m", "pytest"]:
        assert (ROOT / words[-1]).is_file()
    elif asked(words):
        check_arguments(words)
    else:
        assert words[0] in OTHERS, f"{page}: no test knows the command '{command}'"


@pytest.mark.parametrize(("page", "command"), commands(marked=True))
def test_a_command_that_needs_hardware_is_written_as_its_program_wants_it(page: str, command: str) -> None:
    """The project's commands and Prefect's."""
    for part in re.split(r" \|{1,2} | && ", command):
        if asked(words_of(part)):
            check_arguments(words_of(part))


def test_a_command_that_needs_another_machine_is_marked() -> None:
    assert [found for found in commands() if re.search(r"\b10\.\d+\.\d+\.\d+\b", found[1])] == []
    beside = re.compile(r"`(?:sbatch|srun|helm|kubectl) [^`]+`")
    named = {page.name: beside.findall(page.read_text(encoding="utf-8")) for page in PAGES}
    assert {page: found for page, found in named.items() if found} == {}, "in a block, where the mark is"


def test_commands_in_tables_exist() -> None:
    named = re.findall(r"`python -m ([\w.]+)", "".join(page.read_text(encoding="utf-8") for page in PAGES))
    assert named
    stems = [ROOT / name.replace(".", "/") for name in named]
    assert [
        str(stem) for stem in stems if not stem.with_suffix(".py").exists() and not (stem / "__main__.py").exists()
    ] == []


@pytest.mark.parametrize("page", DOCS, ids=lambda page: str(page.relative_to(ROOT / "docs")))
def test_a_page_says_in_its_first_line_what_question_it_answers(page: Path) -> None:
    assert re.fullmatch(r"# .+: .+\?", page.read_text(encoding="utf-8").splitlines()[0])


def test_the_readme_links_every_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    pages = [*(ROOT / "docs").glob("*.md"), LOG / "index.md"]
    linked = set(re.findall(r"\]\((docs/[\w./-]+\.md)\)", readme))
    assert {str(page.relative_to(ROOT)) for page in pages} == linked


def test_the_logs_index_links_every_page_of_it() -> None:
    pages = {page.name for page in LOG.glob("*.md")} - {"index.md"}
    assert set(re.findall(r"\]\((\w+\.md)\)", (LOG / "index.md").read_text(encoding="utf-8"))) == pages


@pytest.mark.parametrize("page", sorted(set(LOG.glob("*.md")) - {LOG / "index.md"}), ids=lambda page: page.name)
def test_a_page_of_the_log_opens_with_a_table_of_questions(page: Path) -> None:
    """Question, answer, figure, kept; no empty cell."""
    lines = page.read_text(encoding="utf-8").splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("|"))
    assert first <= 8
    assert lines[first] == "| question | answer | figure | kept |"
    table = list(takewhile(lambda line: line.startswith("|"), lines[first:]))
    assert [row for row in table if row.count("|") != 5] == []


def test_links_between_pages_lead_somewhere() -> None:
    """`mkdocs build --strict` checks those within docs/."""
    for page in PAGES:
        for name in re.findall(r"\]\(([\w./-]+\.(?:md|png|svg))(?:#[\w-]+)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / name).is_file(), f"{page.name} links {name}"


def test_pages_link_each_other_instead_of_naming_a_file() -> None:
    named = {page.name: re.findall(r"`docs/[\w/]+(?:\.md)?`", page.read_text(encoding="utf-8")) for page in PAGES}
    assert {page: found for page, found in named.items() if found} == {}


def test_links_and_files_named_in_the_documentation_exist() -> None:
    place = re.compile(r"`((?:docs|tasks|flows|sonorant|tests|benchmarks|infra|corpora)/[\w./-]+)`")
    made = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    for page in PAGES:
        for name in place.findall(page.read_text(encoding="utf-8")):
            assert (ROOT / name).exists() or f"/{name}" in made, f"{page.name} names {name}"


DESIGN = (ROOT / "docs" / "DESIGN.md").read_text(encoding="utf-8")


def test_the_design_names_every_room_and_extra_and_fits_on_its_pages() -> None:
    rooms = {path.name for path in (ROOT / "sonorant").iterdir() if (path / "__init__.py").exists()}
    extras = {path.name for path in (ROOT / "sonorant/extras").iterdir() if (path / "__init__.py").exists()}
    table = DESIGN.split("## The rooms", 1)[1].split("\n## ", 1)[0]
    assert rooms <= set(re.findall(r"^\| `(\w+)/` \|", table, re.MULTILINE))
    assert {extra for extra in extras if f"`{extra}`" not in table} == set()
    assert len(DESIGN.splitlines()) <= 350
