"""`sonorant serve` as a process, for a program that speaks with it and ends it."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from sonorant.errors import SonorantError


@contextmanager
def served(*words: str) -> Iterator[str]:
    """The address, such as http://127.0.0.1:8000/, of `sonorant serve <words>` on a free port; it is ended after the
    block. Raises SonorantError if it does not start."""
    command = [sys.executable, "-m", "sonorant.cli.main", "serve", *words, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            found = re.search(r"http://[\d.:]+/", process.stdout.readline())
            if found is None:
                raise SonorantError("the server did not start; its message is above")
            yield found[0]
        finally:
            process.terminate()
