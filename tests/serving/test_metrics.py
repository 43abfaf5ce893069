import re
from pathlib import Path

from sonorant.serving.server import ServeConfig
from sonorant.serving.voices import Offer
from tests.support.imports import ROOT
from tests.support.serving import Running, ask, lines_of, running
from tests.support.variants import with_variant

GRAPHS = 3.0
"""Encoder, decoder and vocoder."""


def counted(server: Running, name: str) -> dict[str, float]:
    lines = [line.rsplit(" ", 1) for line in ask(server.url, "/metrics").read().decode().splitlines()]
    return {told.removeprefix(name): float(value) for told, value in lines if told.split("{")[0] == name}


def speak(server: Running, **wish: str) -> None:
    assert lines_of(server.url, "/v1/speech", text="Hi.", **wish)[-1].get("end")


def test_late_compilations_are_the_graphs_that_requests_waited_for(voice_bundle: Path, tmp_path: Path) -> None:
    """The voice loaded at the start does not count; another variant or voice counts once each."""
    offers = [
        Offer(name=name, where=str(with_variant(voice_bundle, tmp_path / name, "other", {}))) for name in ("one", "two")
    ]

    with running(ServeConfig(offers=tuple(offers), workers=1)) as server:
        for voice, variant, one, two in (
            ("one", None, 0.0, None),
            ("one", "fp32", 0.0, None),  # the voice's default
            ("one", "other", GRAPHS, None),
            ("one", "other", GRAPHS, None),
            ("two", None, GRAPHS, GRAPHS),
            ("two", None, GRAPHS, GRAPHS),
            ("two", "other", GRAPHS, 2 * GRAPHS),
        ):
            speak(server, voice=voice, **({"variant": variant} if variant else {}))
            found = counted(server, "sonorant_late_compilations_total")
            assert (found.get('{voice="one"}'), found.get('{voice="two"}')) == (one, two), (voice, variant)


def described() -> dict[str, tuple[str, set[str]]]:
    found = {}
    for line in (ROOT / "docs" / "serving.md").read_text().splitlines():
        names, kind, *_ = [*line.removeprefix("| ").split(" | "), ""]
        for name in re.findall(r"`((?:sonorant|process)_\w+)`", names) if line.startswith("| `") else ():
            found[name] = (kind.split()[0], set(re.findall(r"`(\w+)`", kind)))
    return found


def test_the_table_of_the_documentation_has_every_metric_with_its_kind_and_labels(server: Running) -> None:
    speak(server)
    printed: dict[str, tuple[str, set[str]]] = {}
    for line in ask(server.url, "/metrics").read().decode().splitlines():
        if line.startswith("# TYPE"):
            _, _, name, kind = line.split()
            printed[name] = (kind, set())
        elif not line.startswith("#"):
            printed[name][1].update(re.findall(r"(\w+)=\"", line))
    told = {name: (kind, labels - {"le"}) for name, (kind, labels) in printed.items() if not name.endswith("_created")}
    assert told == described()
