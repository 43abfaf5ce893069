import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra.background import answers
from tests.support.waiting import PATIENCE, wait_until


@contextmanager
def mlflow_server(project: Path, port: int, *words: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A server on loopback with an sqlite file of the test; `words` and `environment` are more options and
    variables."""
    command = [sys.executable, "-m", "mlflow", "server", "--port", str(port), "--workers", "1"]
    command += [f"--backend-store-uri=sqlite:///{project}/server.db", f"--artifacts-destination={project}/artifacts"]
    command += words
    with (project / "server.log").open("a") as output:
        variables = os.environ | environment
        process = subprocess.Popen(command, start_new_session=True, stdout=output, stderr=output, env=variables)
    try:
        wait_until(lambda: process.poll() is not None or answers(f"http://127.0.0.1:{port}/health"))
        assert process.poll() is None, (project / "server.log").read_text()
        yield process
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(PATIENCE)
        wait_until(lambda: not answers(f"http://127.0.0.1:{port}/health"))
