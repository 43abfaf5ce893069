"""`python -m sonorant.serving.mother <socket> <bundle>`: load a voice once and fork the speaking processes, which share
its memory and start immediately.

Forking is safe because the process has one thread and its graphs use no thread pool. The children exit when their pipes
close.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import socket
import sys
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from sonorant.errors import SonorantError, file_errors
from sonorant.serving.speech_worker import Variants, Worker
from sonorant.speech.voice import Voice

CHECK = "1, 2, 3."
"""Check sentence for every voice; numbers can be read in every language."""
SPEAKERS = 8
"""Maximum number of speakers to check."""
QUIETEST = 1e-4
"""Minimum peak of speech, relative to full scale."""
SHORTEST = 0.1
"""Minimum length in seconds of the spoken check sentence."""


def check(voice: Voice) -> None:
    """Speak the check sentence with up to `SPEAKERS` speakers. Raises SonorantError if one fails."""
    for speaker in voice.speakers[:SPEAKERS]:
        try:
            samples = voice.say(CHECK, speaker)
        except SonorantError as error:
            raise SonorantError(f"cannot speak its check sentence ({speaker}: {error})") from None
        if len(samples) < SHORTEST * voice.sample_rate or np.abs(samples).max() < QUIETEST:
            raise SonorantError(f"cannot speak its check sentence ({speaker}: silence)")


def main() -> None:
    """Load and check the voice, report the result, then fork a process for each pipe received."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the server handles them
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies
    logging.basicConfig(format="%(levelname)s: %(message)s", level=os.environ.get("SONORANT_LOG", "ERROR"))
    control = socket.socket(fileno=int(sys.argv[1]))
    variants = Variants(Path(sys.argv[2]))
    try:
        with file_errors():
            check(variants.load())
    except SonorantError as error:
        control.sendall(json.dumps({"error": str(error)}).encode() + b"\n")
        return
    except Exception as error:
        logging.getLogger(__name__).exception("loading the voice failed")
        control.sendall(json.dumps({"error": f"cannot be loaded ({type(error).__name__})"}).encode() + b"\n")
        return
    gc.collect()
    gc.freeze()  # a collection in a child would copy all pages
    control.sendall(b'{"ready": true}\n')
    while True:
        _, pipes, _, _ = socket.recv_fds(control, 1, 1)
        if not pipes:
            return
        if os.fork() == 0:
            try:
                control.close()
                pipe = Connection(pipes[0])
                pipe.send(("pid", os.getpid()))
                Worker(pipe, variants).run()
            finally:
                os._exit(1)
        os.close(pipes[0])


if __name__ == "__main__":
    main()
