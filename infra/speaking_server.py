"""Run `sonorant serve` as a child process."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from sonorant.errors import SonorantError


@contextmanager
def served(*words: str) -> Iterator[str]:
    """Run `sonorant serve <words>` on a free port within the block. Yield its address, such as http://127.0.0.1:8000/.
    Raises SonorantError if it does not start."""
    command = [sys.executable, "-m", "sonorant.cli.main", "serve", *words, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            found = re.search(r"http://[\d.:]+/", process.stdout.readline())
            if found is None:
                raise SonorantError("the server did not start; see its message above")
            yield found[0]
        finally:
            process.terminate()
