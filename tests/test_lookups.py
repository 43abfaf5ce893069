"""Nothing looks up a name on another machine: a name server in a namespace of its own records every question."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sonorant import QUIET
from tests.flows.test_actions import project as project  # a fixture
from tests.support.imports import ROOT

RECORDER = """
import re, socket, subprocess, sys, threading
server, asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), set()
server.bind(("127.0.0.1", 53))
def answer():
    while True:
        question, client = server.recvfrom(4096)
        asked.add(re.sub(rb"[^-_a-z0-9]", b".", question[13:-5].lower()).decode())
        server.sendto(question[:2] + b"\\x81\\x83" + question[4:], client)  # there is no such name
threading.Thread(target=answer, daemon=True).start()
status = subprocess.run(sys.argv[2:]).returncode
open(sys.argv[1], "w").write(" ".join(asked))
sys.exit(status)
"""
SERVE = """
import subprocess, sys, urllib.request
server = subprocess.Popen([sys.executable, "-m", "sonorant.cli.main", "serve", sys.argv[1], "--port", "0"],
                          stdout=subprocess.PIPE, text=True)
address = server.stdout.readline().split()[2]
body = b'{"model": "voice", "input": "Hello.", "voice": "anna"}'
request = urllib.request.Request(address + "/audio/speech", body, {"Content-Type": "application/json"})
assert urllib.request.urlopen(request).read()
server.terminate()
"""
FLOW = """
from flows.demo import use_own_prefect; use_own_prefect()
from flows.train_and_export import train_and_export
assert train_and_export(return_state=True).is_completed()
"""
TRAIN = """
import sys; from pathlib import Path
from sonorant.training.distributed.launch import launch
from testbed.tiny_training import tiny_features, tiny_job
launch(tiny_job("acoustic", tiny_features(Path("features")), Path()))
"""


@pytest.fixture
def looked_up(tmp_path: Path) -> Callable[..., list[str]]:
    """looked_up(*arguments of python, cwd) -> names that it and its processes look up."""

    def look(*words: str | Path, cwd: Path = tmp_path) -> list[str]:
        (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.1\n")
        (tmp_path / "recorder.py").write_text(RECORDER)
        script = 'ip link set lo up && mount --bind resolv.conf /etc/resolv.conf && cd "$1" && shift && exec "$@"'
        inside = ["unshare", "-rnm", "sh", "-c", script, "sh"]
        try:
            subprocess.run([*inside, ".", "true"], cwd=tmp_path, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("needs network and mount namespaces (unshare -rnm)")
        own = {name: value for name, value in os.environ.items() if name not in QUIET and "proxy" not in name.lower()}
        own |= {"PYTHONPATH": str(ROOT), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        record = [sys.executable, tmp_path / "recorder.py", tmp_path / "asked", sys.executable, *words]
        done = subprocess.run([*inside, cwd, *record], cwd=tmp_path, env=own, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return sorted({*(tmp_path / "asked").read_text().split()} - {socket.gethostname().lower()})

    return look


def test_speaking_and_serving_look_up_no_name(looked_up: Callable[..., list[str]], voice_bundle: Path) -> None:
    ask = "import socket, contextlib\nwith contextlib.suppress(OSError): socket.getaddrinfo('voice.example.org', 80)"
    assert looked_up("-c", ask) == ["voice.example.org"], "the recorder sees it"
    say = ("-m", "sonorant.cli.main", "say", "Hello.", "--voice", voice_bundle, "-o", "hello.wav")
    assert looked_up(*say) == looked_up("-c", SERVE, voice_bundle) == []


@pytest.mark.long
def test_a_pipeline_looks_up_no_name(looked_up: Callable[..., list[str]], project: Path) -> None:
    """Prefect, DVC, MLflow's registry; torchrun."""
    assert looked_up("-c", FLOW, cwd=project) == []
    assert looked_up("-c", TRAIN) == []
