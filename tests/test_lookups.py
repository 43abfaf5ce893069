"""Nothing looks up a name on another machine: a name server in a namespace of its own records every question."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sonorant import QUIET
from testbed.machines import why_not
from tests.flows.conftest import make_project as make_project  # a fixture
from tests.flows.test_actions import project as project
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
import subprocess, sys, time, urllib.request
server = subprocess.Popen([sys.executable, "-m", "sonorant.cli.main", "serve", sys.argv[1], "--port", "0"],
                          stdout=subprocess.PIPE, text=True)
address = server.stdout.readline().split()[2].strip(",")
body = b'{"model": "voice", "input": "Hello.", "voice": "anna"}'
request = urllib.request.Request(address + "/audio/speech", body, {"Content-Type": "application/json"})
try:
    assert urllib.request.urlopen(request).read()
    time.sleep(15)  # ONNX Runtime reports after ten seconds
finally:
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


def looked_up(place: Path, *words: str | Path, cwd: str | Path = ".") -> list[str]:
    """Names that python with these arguments and its processes look up. `place`: an empty folder."""
    if why := why_not():
        pytest.skip(why)
    (place / "resolv.conf").write_text("nameserver 127.0.0.1\n")
    script = 'ip link set lo up; mount --bind resolv.conf /etc/resolv.conf; cd "$1"; shift; exec "$@"'
    inside = ["unshare", "-rnm", "sh", "-ec", script, "sh", cwd]
    record = [sys.executable, "-c", RECORDER, place / "asked", sys.executable]
    own = {name: value for name, value in os.environ.items() if name not in QUIET} | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([*inside, *record, *words], cwd=place, env=own, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return (place / "asked").read_text().split()


def test_speaking_and_serving_look_up_no_name(voice_bundle: Path, tmp_path: Path) -> None:
    ask = "import socket\ntry: socket.getaddrinfo('voice.example.org', 80)\nexcept OSError: pass"
    assert looked_up(tmp_path, "-c", ask) == ["voice.example.org"], "the recorder sees it"
    say = ("-m", "sonorant.cli.main", "say", "Hello.", "--voice", voice_bundle, "-o", "hello.wav")
    assert looked_up(tmp_path, *say) == looked_up(tmp_path, "-c", SERVE, voice_bundle) == []


@pytest.mark.long
def test_a_pipeline_looks_up_no_name(project: Path, tmp_path: Path) -> None:
    """Prefect, DVC, MLflow's registry; torchrun."""
    assert looked_up(tmp_path, "-c", FLOW, cwd=project) == []
    assert set(looked_up(tmp_path, "-c", TRAIN)) <= {"1.0.0.127.in-addr.arpa"}, "torch asks what loopback is called"
