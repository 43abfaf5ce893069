import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sonorant.serving.keys import new_key
from tests.support.command import error_line
from tests.support.processes import start
from tests.support.serving import ask, started
from tests.support.waiting import PATIENCE

TEXTS = ("A secret apple.", "A pear of nobody's.")
GOOD = json.dumps({"text": TEXTS[0]}).encode()
BAD = json.dumps({"text": TEXTS[1], "speaker": "nobody"}).encode()


def written(bundle: Path, *options: str | Path) -> str:
    """The server's stderr during a request and until it exits."""
    with started(f"tiny={bundle}", "--workers", "1", *options) as (process, url):
        for body in (GOOD, BAD):
            ask(url, "/v1/speech", body).read()
        metrics = ask(url, "/metrics").read().decode()
        assert not any(text in metrics for text in TEXTS)
        process.terminate()
        assert process.wait(PATIENCE) == 0
        assert process.stderr is not None
        return process.stderr.read()


def test_a_server_for_others_warns_in_one_line(voice_bundle: Path, tmp_path: Path) -> None:
    new_key(tmp_path / "keys.json", "app")
    says = "warning: listening on 0.0.0.0 without TLS{}; put a proxy in front of it"
    open_to_all = " and without keys; give --keys"
    assert written(voice_bundle, "--host", "0.0.0.0").splitlines() == [says.format(open_to_all)]
    keys = ("--keys", tmp_path / "keys.json")
    assert written(voice_bundle, "--host", "0.0.0.0", *keys).splitlines() == [says.format("")]


def test_no_text_is_logged_unless_it_is_asked_for(voice_bundle: Path) -> None:
    assert written(voice_bundle) == ""
    lines = written(voice_bundle, "--log-texts").splitlines()
    for text, outcome in zip(TEXTS, ("spoken", "refused"), strict=True):
        [line] = [line for line in lines if text in line]
        assert line.startswith(f"INFO: tiny, {outcome}, {len(text)} characters, ")


FULL = """\
import sys, tempfile
from sonorant.cli import main as cli
tempfile._candidate_tempdir_list = lambda: ["/proc"]
cli.main(["serve", *sys.argv[1:]])
"""


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("models:/x@y", "No usable temporary directory found in ['/proc']; set TMPDIR"),
        ("x=" + "a" * 300, "File name too long; use a shorter name"),
        ("{} --keys .", ".: Is a directory; check the path"),
    ],
)
def test_a_file_system_that_refuses_is_one_line(voice_bundle: Path, words: str, line: str) -> None:
    command = [sys.executable, "-c", FULL, *words.format(voice_bundle).split(), "--port", "0"]
    assert line in error_line(subprocess.run(command, capture_output=True, text=True))


REGISTRY_HANGS = """\
import pathlib, shutil, sys, tempfile, time
from concurrent.futures import ThreadPoolExecutor
from sonorant.cli import main as cli
from sonorant.serving import following

bundle, hangs = pathlib.Path(sys.argv[1]), sys.argv[2]
asked = []

def hang():
    print("hangs", flush=True)
    ThreadPoolExecutor(1).submit(time.sleep, 1e6).result()  # as mlflow downloads

def version_of(uri):
    asked.append(uri)
    if hangs == "question" and len(asked) == 2:
        hang()
    return f"tiny/{len(asked)}"

def download(version, folder):
    if version != "tiny/1":
        hang()
    return shutil.copytree(bundle, pathlib.Path(tempfile.mkdtemp(dir=folder)), dirs_exist_ok=True)

following._version_of, following._download = version_of, download
cli.main(["serve", "models:/tiny@champion", "--workers", "1", "--poll-seconds", "0.1", "--port", "0"])
"""


@pytest.mark.parametrize("hangs", ["question", "download"])
def test_a_registry_that_hangs_does_not_hold_up_the_end(voice_bundle: Path, hangs: str) -> None:
    command = [sys.executable, "-c", REGISTRY_HANGS, str(voice_bundle), hangs]
    with start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert {process.stdout.readline().split()[0] for _ in range(2)} == {"serving", "hangs"}
            process.terminate()
            assert process.wait(PATIENCE) == 0
            assert process.stderr.read() == ""
        finally:
            process.kill()


ENDS = """\
import sys
from sonorant.cli import main as cli
from sonorant.serving import server

def serve(config, tell):
    print("to a pipe, so kept until there is more")
    raise eval(sys.argv[2])

server.serve = serve
cli.main(["serve", sys.argv[1]])
"""


@pytest.mark.parametrize(
    ("end", "status"), [("SystemExit(0)", 0), ("SystemExit(143)", 143), ("SystemExit", 0), ("KeyboardInterrupt", 130)]
)
def test_the_end_loses_no_line_and_keeps_its_status(end: str, status: int) -> None:
    command, environment = [sys.executable, "-c", ENDS, "folder", end], {**os.environ, "PYTHONUNBUFFERED": ""}
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (status, "to a pipe, so kept until there is more\n", "")
