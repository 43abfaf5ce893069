import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sonorant.processes import SCHEDULER
from tests.support.cluster import cluster, outside
from tests.support.imports import ROOT

pytest.importorskip("distributed", reason="distributed is not installed (the extra cluster)")
pytestmark = pytest.mark.long
CALLER = """\
from sonorant.errors import SonorantError
from sonorant.processes import spread
from tests.support.spread_work import nap
try:
    print(spread(nap, range(3), label="naps", unit="nap"))
except SonorantError as error:
    print(error)
"""


def variables(folder: Path) -> dict[str, str]:
    """The documented variables, with a self-signed certificate."""
    certificate = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    files = ["-keyout", folder / "node.key", "-out", folder / "node.pem", "-subj", "/CN=sonorant"]
    subprocess.run(["openssl", "req", "-x509", *certificate, *files], check=True, capture_output=True)
    shutil.copy(folder / "node.pem", folder / "ca.pem")
    page = (ROOT / "docs/scale_out.md").read_text(encoding="utf-8")
    named = dict(re.findall(r"(DASK_DISTRIBUTED__COMM_\w+)=(\S+)", page))
    assert len(named) == 8
    return {name: str(folder / value) if "." in value else value for name, value in named.items()}


def call(address: str, **environment: str) -> str:
    own = outside(os.environ) | {SCHEDULER: address, "PYTHONPATH": str(ROOT), **environment}
    done = subprocess.run([sys.executable, "-c", CALLER], cwd=ROOT, env=own, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_only_who_has_a_certificate_may_connect(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    tls = variables(tmp_path)
    with cluster(tmp_path, 1, tls) as made:
        assert call(made.address, **tls) == "[0, 1, 2]\n"
        for address in (made.address, made.address.replace("tls", "tcp")):
            said = call(address)
            assert said.startswith(f"cannot reach a scheduler at {address} (") and said.count("\n") == 1
