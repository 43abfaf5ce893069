import subprocess
import sys

import pytest

from tests.support.imports import ROOT, closure, imported_names

SERVER = {"fastapi", "starlette", "uvicorn", "prometheus_client"}


def importers() -> set[str]:
    files = [path for top in ("sonorant", "tasks", "flows") for path in (ROOT / top).rglob("*.py")]
    return {
        str(path.relative_to(ROOT)) for path in files if SERVER & {name.split(".")[0] for name in imported_names(path)}
    }


def test_the_server_alone_imports_what_serves() -> None:
    assert importers()
    assert [path for path in importers() if not path.startswith("sonorant/serving/")] == []


@pytest.mark.parametrize("module", ["speech/voice.py", "serving/speech_worker.py", "serving/mother.py", "cli/say.py"])
def test_a_process_that_speaks_imports_no_server(module: str) -> None:
    speaks = {str(path.relative_to(ROOT)) for path in closure(ROOT / "sonorant" / module)}
    assert speaks & importers() == set()


def test_the_command_line_imports_it_only_to_serve() -> None:
    look = "import sys, sonorant.cli.main; sonorant.cli.main._parser([]); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], cwd=ROOT, capture_output=True, text=True, check=True)
    assert SERVER & set(done.stdout.split()) == set()
