import io
import json
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from sonorant.audio.loudness import loudness, true_peak
from sonorant.audio.wav import resample
from sonorant.corpus.manifest import Utterance, write_manifest
from sonorant.errors import SonorantError
from sonorant.extras.listening.answers import AnswersFile, read_answers
from sonorant.extras.listening.listening_server import ListenServer
from sonorant.extras.listening.listening_sounds import (
    ANCHOR,
    LOUDNESS,
    PEAK,
    RECORDINGS,
    A,
    B,
    equally_loud,
    gather,
    low_passed,
)
from sonorant.extras.listening.results import judge
from sonorant.extras.listening.systems import read_sentences
from sonorant.speech import Voice
from tests.extras.listening.conftest import NAMES, RATE, Start, heard
from tests.support.command import error_line, run_command
from tests.support.processes import start as start_process
from tests.support.serving import ask
from tests.support.waiting import PATIENCE

GIVEAWAYS = ("better", "worse", "person", "sentence", "anchor", "recordings", ".wav", '"A"', '"B"', "seed")
NO_PORT = ("--port", "70000")
"""Prevents serving."""


def post(address: str, path: str, body: Any) -> HTTPResponse:
    return ask(address, path, json.dumps(body).encode())


def begin(address: str, listener: str = "anna") -> dict[str, Any]:
    return json.loads(post(address, "/next", {"listener": listener}).read())


def answer(address: str, state: dict[str, Any], given: Any) -> tuple[int, dict[str, Any]]:
    body = {"listener": state["listener"], "trial": state["trial"]["token"], "answer": given}
    response = post(address, "/answers", body)
    return response.status, json.loads(response.read())


def listen(address: str, token: str) -> tuple[np.ndarray, int]:
    response = ask(address, f"/sounds/{token}")
    assert response.status == 200
    return soundfile.read(io.BytesIO(response.read()), dtype="float32")


def finish(server: ListenServer, listener: str, likes: dict[str, int], *, first: bool = False) -> None:
    """Answer all trials with scores `likes`; with `first`, the first sound always wins."""
    state = begin(server.url, listener)
    while trial := state["trial"]:
        scores = [likes[heard(*listen(server.url, token))] for token in trial["sounds"]]
        wins = "first" if first or scores[0] > scores[1] else "second" if scores[1] > scores[0] else "none"
        status, state = answer(server.url, state, wins if trial["kind"] == "pair" else scores)
        assert status == 200


def test_nothing_that_is_sent_but_the_sound_tells_which_is_which(start: Start) -> None:
    server, seen, heads = start(), set(), set()
    for listener in ("anna", "ben"):
        state = begin(server.url, listener)
        while trial := state["trial"]:
            assert [word for word in GIVEAWAYS if word in json.dumps(state)] == []
            assert trial.keys() == {"token", "kind", "text", "sounds", "reference"}
            tokens = [trial["token"], *trial["sounds"], *filter(None, [trial["reference"]])]
            assert not seen & set(tokens) and len(set(tokens)) == len(tokens), "no name is used twice"
            seen.update(tokens)
            for token in tokens[1:]:
                headers = dict(ask(server.url, f"/sounds/{token}").headers)
                assert headers.pop("Content-Length") and headers.pop("Date")
                heads.add(json.dumps(headers))
            given = "none" if trial["kind"] == "pair" else [50] * 4
            state = answer(server.url, state, given)[1]
    assert len(heads) == 1


def test_the_hidden_recording_is_not_found_by_its_bytes_or_size(start: Start) -> None:
    server, sizes = start(), []
    state = begin(server.url)
    while trial := state["trial"]:
        if trial["kind"] == "rating":
            hidden = next(token for token in trial["sounds"] if heard(*listen(server.url, token)) == RECORDINGS)
            one, other = (listen(server.url, token)[0] for token in (hidden, trial["reference"]))
            np.testing.assert_allclose(one[:4000], other[:4000], atol=2.1 / 32768)
            assert (one[:4000] != other[:4000]).mean() > 0.2
            sizes.append(len(one) - len(other))
        state = answer(server.url, state, "none" if trial["kind"] == "pair" else [50] * 4)[1]
    assert len(sizes) == len(NAMES) and 0 not in sizes


def test_sides_are_balanced_and_orders_are_the_listeners_own(start: Start) -> None:
    test = start().sitting._test
    firsts, places, orders = Counter(), Counter(), set()
    for number in range(40):
        trials = test.trials(f"listener {number}")
        assert trials == test.trials(f"listener {number}")
        assert [trial.kind for trial in trials] == ["pair"] * 7 + ["rating"] * 7
        assert sorted(trial.sentence for trial in trials) == sorted(2 * NAMES)
        won = Counter(trial.order[0] for trial in trials[:7])
        assert sorted(won.values()) == [3, 4]
        firsts.update(won)
        places.update((place, name) for trial in trials[7:] for place, name in enumerate(trial.order))
        orders.add(tuple(trial.sentence for trial in trials))
    assert len(orders) == 40
    assert abs(firsts[A] - firsts[B]) <= 40 and len(places) == 16
    assert all(40 < count < 100 for count in places.values()), "about 70 each"


def test_who_always_takes_the_first_prefers_none_and_who_hears_prefers_what_is_liked(
    start: Start, tmp_path: Path
) -> None:
    server = start(A, B, count=6)
    finish(server, "first", {A: 1, B: 1}, first=True)
    results = judge(read_answers(tmp_path / "answers.jsonl")[1])
    assert results.preference and results.preference.mean == 50.0 and not results.ratings
    finish(server, "ear", {A: 2, B: 1})
    results = judge(read_answers(tmp_path / "answers.jsonl")[1])
    assert results.preferred["ear"] == {A: 6, None: 0, B: 0}


def test_ratings_reach_the_system_that_was_heard(start: Start, tmp_path: Path) -> None:
    likes = {RECORDINGS: 100, A: 70, B: 40, ANCHOR: 20}
    finish(start(), "Anna  Maria", likes)
    header, answers = read_answers(tmp_path / "answers.jsonl")
    assert {answer.listener for answer in answers} == {"anna maria"}
    assert all(answer.scores == likes for answer in answers if answer.kind == "rating")
    assert sorted(header.sentences) == sorted(NAMES)


def test_all_sounds_of_a_sentence_are_equally_loud_and_none_clips(start: Start) -> None:
    sounds = start().sitting._test.sounds
    for name in NAMES:
        levels = [loudness(own[name], RATE) for own in sounds.by_system.values()]
        assert np.ptp(levels) < 0.01 and levels[0] <= LOUDNESS + 0.01
    rng = np.random.default_rng(0)
    quiet = (0.01 * rng.standard_normal(RATE)).astype(np.float32)
    peaky = quiet.copy()
    peaky[RATE // 2] = 1.0
    made = equally_loud({A: {"x": quiet}, B: {"x": peaky}, RECORDINGS: {"x": 0 * quiet}}, RATE)
    assert loudness(made[A]["x"], RATE) == pytest.approx(loudness(made[B]["x"], RATE), abs=0.01)
    assert loudness(made[A]["x"], RATE) < LOUDNESS - 5, "the peak's sound sets how loud both may be"
    assert true_peak(made[B]["x"], RATE) == pytest.approx(PEAK, abs=0.01)
    assert not made[RECORDINGS]["x"].any()


def test_the_anchor_passes_and_stops_what_the_standard_asks_for() -> None:
    """BS.1534-3, table 1: within 0.1 dB up to 3.5 kHz, 25 dB down at 4 kHz, 50 dB at 4.5 kHz."""
    rate = 24000
    time = np.arange(rate) / rate
    inside = slice(rate // 4, 3 * rate // 4)

    def passed(hertz: float) -> float:
        sine = np.sin(2 * np.pi * hertz * time).astype(np.float32)
        return 20 * np.log10(np.std(low_passed(sine, rate)[inside]) / np.std(sine[inside]) + 1e-9)

    assert all(abs(passed(hertz)) < 0.1 for hertz in (100, 1000, 3000, 3400))
    assert passed(4000) < -25 and passed(4500) < -50


def test_other_rates_are_resampled_and_said(places: dict[str, str], tmp_path: Path) -> None:
    for file in Path(places[B]).iterdir():
        samples, rate = soundfile.read(file, dtype="float32")
        soundfile.write(file, resample(samples, rate, 12000), 12000)
    (Path(places[A]) / "more.wav").write_bytes((Path(places[A]) / f"{NAMES[0]}.wav").read_bytes())
    sounds = gather(places, [], count=99, seed=1)
    assert sounds.rate == RATE and sorted(sounds.sentences) == sorted(NAMES)
    assert sounds.notes == (
        f"note: 1 of 8 sentences of {places[A]} are not in all folders",
        f"note: {places[B]} is at 12000 Hz and played at 16000 Hz",
    )
    assert all(heard(sounds.by_system[system][name], RATE) == system for system in (A, B) for name in NAMES)


def test_a_voice_speaks_the_sentences_of_a_text(voice_bundle: Path, places: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text(f"{NAMES[0]}|One apple.\n\n{NAMES[1]}|Two pears.\nA third.\n", encoding="utf-8")
    sentences = read_sentences(tmp_path / "texts.txt")
    assert [(sentence.name, sentence.text) for sentence in sentences][2] == ("0004", "A third.")
    chosen = {A: str(voice_bundle), B: places[B]}
    sounds = gather(chosen, sentences, count=20, seed=1)
    assert dict(sounds.texts) == {NAMES[0]: "One apple.", NAMES[1]: "Two pears."}
    spoken, said = sounds.by_system[A][NAMES[0]], Voice.load(voice_bundle).say("One apple.")
    assert np.corrcoef(spoken, said)[0, 1] > 0.9999
    assert gather(chosen, sentences, count=20, seed=1).content == sounds.content, "a voice is known again"
    with pytest.raises(SonorantError, match="is a voice; give the sentences to speak with --sentences"):
        gather(chosen, [], count=20, seed=1)


def test_a_manifests_held_out_sentences_are_heard_as_training_heard_them(
    voice_bundle: Path, places: dict[str, str], tmp_path: Path
) -> None:
    file = Path(places[RECORDINGS]) / f"{NAMES[0]}.wav"
    row = Utterance(id="u1", audio=file.name, start=0.1, end=0.2, text="One apple.", speaker="ben", language="en-us")
    rows = [replace(row, split=split, id=split, text=f"{split} apple.") for split in ("train", "test")]
    write_manifest(tmp_path / "manifest.jsonl", rows)
    sentences = read_sentences(tmp_path / "manifest.jsonl")
    chosen = {A: str(voice_bundle), B: str(voice_bundle), RECORDINGS: places[RECORDINGS]}
    sounds = gather(chosen, sentences, count=20, seed=1)
    assert sounds.sentences == ("test",)
    assert len(sounds.by_system[RECORDINGS]["test"]) == RATE // 10
    said = Voice.load(voice_bundle).say("test apple.", "ben")
    assert np.corrcoef(sounds.by_system[A]["test"], said)[0, 1] > 0.9999


@pytest.fixture
def serve(places: dict[str, str], tmp_path: Path) -> Iterator[Callable[[], tuple[subprocess.Popen[str], str]]]:
    """Start `sonorant listen` on A and B: process and address."""
    started: list[subprocess.Popen[str]] = []

    def begin() -> tuple[subprocess.Popen[str], str]:
        command = [sys.executable, "-m", "sonorant.cli.main", "listen", places[A], places[B], "--port", "0"]
        streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started.append(start_process([*command, "--answers", tmp_path / "a/answers.jsonl"], **streams))
        for line in started[-1].stdout:
            if found := re.search(r"http://127\.0\.0\.1:\d+/", line):
                return started[-1], found[0]
        raise AssertionError(started[-1].stderr.read())

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def test_an_answer_survives_kill_9_and_the_listener_goes_on_after_it(
    serve: Callable[[], tuple[subprocess.Popen[str], str]], tmp_path: Path
) -> None:
    file = tmp_path / "a/answers.jsonl"
    process, address = serve()
    state = begin(address)
    status, after = answer(address, state, "first")
    process.kill()
    process.wait(PATIENCE)
    assert (status, after["done"]) == (200, 1)
    with file.open("a") as cut:
        cut.write('{"listener": "anna", "kind": "pa')
    process, address = serve()
    again = begin(address, " Anna ")
    assert again == after, "under the same names"
    assert answer(address, again, "second")[1]["done"] == 2
    process.send_signal(signal.SIGINT)
    printed = process.stdout.read()
    assert (process.wait(PATIENCE), process.stderr.read()) == (0, "")
    assert "anna gave 2 of 7 answers" in printed and "Preference, 2 pairs" in printed
    assert [one.trial[0] for one in read_answers(file)[1]] == ["anna", "anna"]
    assert run_command("sonorant.cli.main", "listen", "--results", file).stdout in printed


def test_a_trial_is_answered_once(start: Start, tmp_path: Path) -> None:
    server = start()
    state = begin(server.url)
    after = answer(server.url, state, "first")[1]
    assert answer(server.url, state, "second") == (409, after), "the page shows what is next"
    assert answer(server.url, {**after, "listener": "ben"}, "first")[0] == 409, "another listener's trial"
    assert [(one.listener, one.prefers) for one in read_answers(tmp_path / "answers.jsonl")[1]] == [
        ("anna", server.sitting._test.trials("anna")[0].order[0])
    ]


@pytest.mark.parametrize("given", ["third", None, ["first"], 1])
def test_an_invalid_preference_is_refused_and_not_kept(start: Start, tmp_path: Path, given: Any) -> None:
    server = start()
    status, told = answer(server.url, begin(server.url), given)
    assert status == 400 and "first, none, second" in told["error"]
    assert read_answers(tmp_path / "answers.jsonl")[1] == []


@pytest.mark.parametrize("given", [[1, 2, 3], [1, 2, 3, 101], [1, 2, 3, True], [1, 2, 3, 4.5], "first"])
def test_an_invalid_rating_is_refused(start: Start, given: Any) -> None:
    server = start(count=1)
    state = answer(server.url, begin(server.url), "none")[1]
    status, told = answer(server.url, state, given)
    assert status == 400 and "rating" in told["error"] and begin(server.url) == state


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/next", {"listener": ""}, 400),
        ("/next", {"listener": "x" * 61}, 400),
        ("/next", {"listener": "\ud83d"}, 400),
        ("/next", {"listener": 3}, 400),
        ("/next", {"listener": "a", "trial": "b"}, 400),
        ("/answers", {"listener": "a"}, 400),
        ("/results", {"listener": "a"}, 404),
        ("/sounds/" + "0" * 32, None, 404),
        ("/answers.jsonl", None, 404),
    ],
    ids=str,
)
def test_nothing_else_is_served(start: Start, path: str, body: Any, status: int) -> None:
    address = start(A, B).url
    response = ask(address, path) if body is None else post(address, path, body)
    assert response.status == status and "error" in json.loads(response.read())


def test_a_full_disk_is_told_and_leaves_no_half_answer(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, file = start(), tmp_path / "answers.jsonl"
    before, state = file.read_bytes(), begin(server.url)
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        status, told = answer(server.url, state, "first")
    assert status == 500 and told["error"].startswith(f"nothing was written: {file}: cannot be written (No space")
    assert file.read_bytes() == before
    assert answer(server.url, state, "first")[1]["done"] == 1


def test_a_file_belongs_to_one_test_and_one_server(start: Start, places: dict[str, str], tmp_path: Path) -> None:
    server, file = start(A, B), tmp_path / "answers.jsonl"
    command: list[str | Path] = ["sonorant.cli.main", "listen", "--answers", file, *NO_PORT]
    line = error_line(run_command(*command, places[A], places[B]))
    assert line == f"{file}: another sonorant listen is writing to it; stop that one first\n"
    server.sitting._answers.__exit__()
    for words in ([places[B], places[A]], [places[A], places[B], "--seed", "2"], [*places.values()]):
        line = error_line(run_command(*command, *words))
        assert (
            f"{file}: contains answers to another test ({places[A]} against {places[B]} on 7 sentences, seed 1)" in line
        )
    soundfile.write(Path(places[A]) / f"{NAMES[0]}.wav", np.ones(RATE, np.float32) / 2, RATE)
    assert "another test" in error_line(run_command(*command, places[A], places[B]))


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "give A and B, two folders or voices; or --results FILE"),
        (["A"], "give A and B, two folders or voices"),
        (["A", "nowhere"], "nowhere: no such folder; give a folder of recordings or a voice folder"),
        (["A", "EMPTY"], "EMPTY: contains no recordings"),
        (["A", "OTHER"], "no sentence is in all folders (A has 'sentence 0', OTHER has 'x')"),
        (["A", "TWICE"], "TWICE/x.wav: x.flac has the same name; keep one of them"),
        (["A", "BROKEN"], "BROKEN/sentence 0.wav: cannot be read as audio"),
        (["A", "B", "--count", "0"], "--count must be at least 1"),
        (["A", "B", "--sentences", "nowhere.txt"], "nowhere.txt: no such file; give a text file"),
        (["A", "B", "--sentences", "DOUBLE"], "DOUBLE: row 2: a second sentence is named 'x'; rename one"),
        (["A", "B", "--sentences", "BLANK"], "BLANK: contains no sentences; write one per line"),
        (["A", "B", "--answers", "DOUBLE"], "DOUBLE: row 1: not valid JSON"),
        (
            ["A", "B", "--answers", "EMPTY"],
            "EMPTY: cannot be written (Is a directory); give another file with --answers",
        ),
        (["A", "B", "--results", "x.jsonl"], "--results only prints the results of a file; leave out A and B"),
        (["--results", "nowhere.jsonl"], "nowhere.jsonl: no such file; create it with sonorant listen A B"),
        (["--results", "BROKEN/sentence 0.wav"], "BROKEN/sentence 0.wav: not an answers file"),
    ],
)
def test_a_test_that_cannot_start_says_why(places: dict[str, str], tmp_path: Path, words: list[str], line: str) -> None:
    for name in ("EMPTY", "OTHER", "TWICE", "BROKEN"):
        (tmp_path / name).mkdir()
    for file in ("OTHER/x.wav", "TWICE/x.wav", "TWICE/x.flac"):
        soundfile.write(tmp_path / file, np.ones(100, np.float32) / 2, RATE)
    (tmp_path / "BROKEN/sentence 0.wav").write_bytes(b"no sound")
    (tmp_path / "DOUBLE").write_text("x|one\nx|two\n")
    (tmp_path / "BLANK").write_text("\n\n")
    (tmp_path / "A").symlink_to(places[A])
    (tmp_path / "B").symlink_to(places[B])
    before = sorted(tmp_path.iterdir())
    assert error_line(run_command("sonorant.cli.main", "listen", *words, *NO_PORT, cwd=tmp_path)).startswith(line)
    assert sorted(set(tmp_path.iterdir()) - {tmp_path / "listening.jsonl"}) == before


def test_a_file_edited_by_hand_is_told_by_its_row(start: Start, tmp_path: Path) -> None:
    server, file = start(), tmp_path / "answers.jsonl"
    answer(server.url, begin(server.url), "first")
    whole = file.read_text().splitlines()
    for text, line in (
        (whole[1], "row 3: 'anna' has already answered this trial; delete one of the answers"),
        (whole[1].replace('"pair"', '"pear"'), "row 3: kind must be rating, or pair"),
        (
            whole[1].replace('"kind": "pair"', '"kind": "rating"'),
            "row 3: a rating must have a score from 0 to 100 for each",
        ),
        ("{", "row 3: not valid JSON"),
        (
            whole[1].replace('"time"', '"tame"'),
            "row 3: key 'time' is missing; unknown key 'tame'",
        ),
    ):
        file.write_text("\n".join([*whole, text, ""]))
        assert error_line(run_command("sonorant.cli.main", "listen", "--results", file)).startswith(f"{file}: {line}")


def test_only_the_last_row_may_be_cut_off(start: Start, tmp_path: Path) -> None:
    test, file = start().sitting._test, tmp_path / "other.jsonl"
    with AnswersFile(file, test.header) as answers:
        assert answers.given == {}
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(SonorantError, match="not an answers file"):
        AnswersFile(file, test.header)
    assert file.read_bytes(), "a file that is not known to be one of answers is left alone"
