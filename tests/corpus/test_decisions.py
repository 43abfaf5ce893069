from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from sonorant.corpus.decisions import (
    COLUMNS,
    Decision,
    apply,
    clip_name,
    read_decisions,
    write_decision,
    write_decisions,
)
from sonorant.corpus.manifest import Defect, Utterance, read_manifest, write_manifest
from sonorant.corpus.preparation import PrepareConfig, prepare
from sonorant.errors import SonorantError
from sonorant.files import read_json, read_jsonl, sha256_file
from tasks.params import load
from tests.support.conditions import UNCONDITIONED
from tests.support.folders import contents
from tests.support.imports import ROOT

Murmur = Callable[..., np.ndarray]
CONFIG = replace(load("prepare", PrepareConfig, ROOT / "params.yaml"), max_rejected=0.0, validation=0.0, test=0.0)
TEXT = "A sound sentence of some words."
HASH = "0123456789abcdef" * 4
UTTERANCE = Utterance(id="a", audio="a.wav", text=TEXT, speaker="s", language="en-us")

seconds = st.none() | st.floats(0, 1e5, allow_nan=False)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(
    ['a,b;"c"', "one\ntwo", "\r\n", '"', '""', " ", "'=1+1", "\ufeff", "\0", "héllo 你好 👩‍👩‍👧", "a\u2028b", ","]
)
hashes = st.text("0123456789abcdef", min_size=64, max_size=64)


@st.composite
def decisions(draw: st.DrawFn) -> Decision:
    clip = clip_name(draw(hashes), draw(seconds), draw(seconds))
    verdict, note = draw(st.sampled_from(["keep", "drop", "edit"])), draw(texts)
    if verdict != "edit":
        return Decision(clip=clip, decision=verdict, note=note)
    start, end = draw(seconds), draw(seconds)
    if start is not None and end is not None and start >= end:
        start, end = end, start + 1
    text = draw(texts)
    if text == "" and start is end is None:
        start = 0.0
    return Decision(clip=clip, decision="edit", text=text, start=start, end=end, note=note)


@given(made=st.lists(decisions(), max_size=5, unique_by=lambda decision: decision.clip))
def test_decisions_come_back_from_the_file_as_they_were_made(
    tmp_path_factory: pytest.TempPathFactory, made: list[Decision]
) -> None:
    path = tmp_path_factory.getbasetemp() / "decisions.csv"
    write_decisions(path, {decision.clip: decision for decision in made})
    assert list(read_decisions(path).values()) == made


def written(path: Path, *rows: str, header: str = ",".join(COLUMNS)) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def test_a_file_by_hand_may_leave_columns_out_and_order_them_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "decisions.csv"
    path.write_bytes("\ufeffdecision, clip,note\r\n keep ,0123456789ab,fine\r\n\r\ndrop,ff23456789ab\r\n".encode())
    assert list(read_decisions(path).values()) == [
        Decision(clip="0123456789ab", decision="keep", note="fine"),
        Decision(clip="ff23456789ab", decision="drop"),
    ]


def test_a_decision_changes_no_other_row_and_what_was_written_by_hand_meanwhile_stays(tmp_path: Path) -> None:
    path = tmp_path / "mine/decisions.csv"
    one, two, three = (Decision(clip=f"{n:012x}", decision="drop", note=str(n)) for n in range(3))
    write_decision(path, one.clip, one)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{two.clip},drop,,,,1\n")
    assert list(write_decision(path, three.clip, three).values()) == [one, two, three]
    kept = replace(one, decision="keep")
    assert list(write_decision(path, one.clip, kept).values()) == [kept, two, three]
    write_decision(path, two.clip, None)
    assert list(read_decisions(path).values()) == [kept, three]
    damaged = path.read_bytes() + b'"half\n'
    path.write_bytes(damaged)
    with pytest.raises(SonorantError, match="row 4: not CSV"):
        write_decision(path, two.clip, two)
    assert path.read_bytes() == damaged and len(list(path.parent.iterdir())) == 1


@pytest.mark.parametrize(
    ("row", "line"),
    [
        ("0123456789ab,dorp,,,,", "row 2: column decision: unknown decision 'dorp'; did you mean 'drop'?"),
        ("take-1.wav,drop,,,,", "row 2: column clip: 'take-1.wav' is not a clip name; write the first 12 hex digits"),
        ("0123456789ab,edit,,one,,", "row 2: column start: 'one' is not a number; write seconds as 1.25"),
        ("0123456789ab,edit,,,nan,", "row 2: column end: must be a number of seconds, at least 0, not nan"),
        ("0123456789ab,edit,,2,1,", "row 2: column end: 1.0 is not after the start, 2.0"),
        ("0123456789ab,edit,,,,", "row 2: column decision: this edit changes nothing"),
        ("0123456789ab,keep,Other text.,,,", "row 2: column text: only 'edit' changes a clip"),
        ("0123456789ab,edit,One, two.,,,", "row 2: 7 cells, but there are 6 columns; put text that contains a comma"),
        ("0123456789ab,drop,,,,\n\n0123456789ab,keep,,,,", "row 4: column clip: row 2 already decides on 0123456789ab"),
        ('0123456789ab,edit,"no end', "row 2: not CSV"),
        ('0123456789ab,edit,"open\n0123456789ac,drop,"', "row 2: a cell contains another row"),
    ],
)
def test_a_mistake_in_the_file_is_one_line_with_row_and_column(tmp_path: Path, row: str, line: str) -> None:
    path = written(tmp_path / "decisions.csv", row)
    with pytest.raises(SonorantError) as caught:
        read_decisions(path)
    assert str(caught.value).startswith(f"{path}: {line}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"clip;decision\n", "row 1: unknown column 'clip;decision'; separate columns by commas"),
        (b"clip,text\n", "row 1: column decision is missing"),
        (b"clip,decision,clip\n", "row 1: a column is named twice"),
        (b"", "row 1: column clip is missing"),
        (b"clip,decision\n0123456789ab,dr\xf6p\n", "not UTF-8 (byte 29); save it as UTF-8"),
    ],
)
def test_a_file_that_is_none_of_decisions_says_so(tmp_path: Path, content: bytes, line: str) -> None:
    path = tmp_path / "decisions.csv"
    path.write_bytes(content)
    with pytest.raises(SonorantError) as caught:
        read_decisions(path)
    assert str(caught.value).startswith(f"{path}: {line}")


@given(start=seconds, end=seconds, new=st.tuples(st.none() | st.floats(0, 2), st.none() | st.floats(2.1, 4)))
def test_edges_count_from_the_start_of_the_utterance_and_never_leave_it(
    start: float | None, end: float | None, new: tuple[float | None, float | None]
) -> None:
    begins = start or 0.0
    if end is not None:
        end = begins + 4.0
    part = replace(UTTERANCE, start=start, end=end)
    decision = Decision(
        clip=clip_name(HASH, start, end), decision="edit", text=" New\n text ", start=new[0], end=new[1]
    )
    edited = apply(part, decision, 4.0)
    assert isinstance(edited, Utterance) and edited.text == "New text"
    assert edited.start == (start if new[0] is None else pytest.approx(begins + new[0], abs=1e-5))
    assert edited.end == (end if new[1] is None else pytest.approx(begins + new[1], abs=1e-5))
    assert replace(edited, text=TEXT, start=start, end=end) == part


def test_keep_changes_nothing_drop_is_a_defect_and_an_edge_outside_is_refused() -> None:
    assert apply(UTTERANCE, Decision(clip=clip_name(HASH), decision="keep")) is UTTERANCE
    assert apply(UTTERANCE, Decision(clip=clip_name(HASH), decision="drop")) is Defect.DROPPED
    late = Decision(clip=clip_name(HASH), decision="edit", end=2.0004)
    assert apply(UTTERANCE, late, 2.0) == replace(UTTERANCE, end=2.0004), "rounding is forgiven"
    with pytest.raises(ValueError, match=r"column end: 2\.01 s is after the end of the clip, which lasts 2\.000 s"):
        apply(UTTERANCE, replace(late, end=2.01), 2.0)


@pytest.fixture
def corpus(tmp_path: Path, murmur: Murmur) -> Path:
    """Four 3 s recordings; the last two are parts of one file."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    rows = [replace(UTTERANCE, id=id, audio=f"{id}.wav") for id in "ab"]
    for number, row in enumerate(rows):
        soundfile.write(folder / str(row.audio), murmur(3, number), 16000)
    soundfile.write(folder / "long.wav", murmur(6, 5), 16000)
    parts = [replace(UTTERANCE, id=f"long-{n}", audio="long.wav", start=3.0 * n, end=3.0 * n + 3) for n in range(2)]
    write_manifest(folder / "manifest.jsonl", [*rows, *parts])
    return folder


def names(corpus: Path) -> dict[str, str]:
    rows = read_manifest(corpus / "manifest.jsonl")
    return {row.id: clip_name(sha256_file(corpus / str(row.audio)), row.start, row.end) for row in rows}


def prepared(corpus: Path, *made: Decision, **config: Any) -> dict[str, Utterance]:
    """Accepted utterances by id after these decisions."""
    path, out = corpus.parent / "decisions.csv", corpus.parent / "out"
    write_decisions(path, {decision.clip: decision for decision in made})
    prepare(
        corpus,
        out,
        replace(CONFIG, decisions=str(path), **config),
        "gruut",
        condition=UNCONDITIONED,
        cache=corpus.parent / "cache",
    )
    return {row.id: row for row in read_manifest(out / "manifest.jsonl")}


def every_kind(corpus: Path) -> list[Decision]:
    clips = names(corpus)
    return [
        Decision(clip=clips["a"], decision="drop", note="a dog barks"),
        Decision(clip=clips["b"], decision="edit", text="Another sound sentence."),
        Decision(clip=clips["long-1"], decision="edit", start=0.5, end=2.5),
        Decision(clip=clips["long-0"], decision="keep"),
        Decision(clip="0123456789ab", decision="drop"),
    ]


def test_prepare_applies_what_was_decided_and_counts_no_drop_as_a_fault(corpus: Path) -> None:
    made = every_kind(corpus)
    found = prepared(corpus, *made)
    assert found.keys() == {"b", "long-0", "long-1"}
    assert (found["b"].text, found["b"].spoken) == ("Another sound sentence.", "Another sound sentence.")
    assert (found["long-1"].start, found["long-1"].end, found["long-1"].seconds) == (3.5, 5.5, 2.0)
    assert {id: row.clip for id, row in found.items()} == {id: names(corpus)[id] for id in found}, "as before the edit"
    (row,) = read_jsonl(corpus.parent / "out/rejected.jsonl")
    assert (row["id"], row["reason"], row["detail"]) == ("a", "dropped by a decision", "a dog barks")
    summary = read_json(corpus.parent / "out/summary.json")
    assert summary["decisions"] == {"keep": 1, "drop": 1, "edit": 2, "unused": 1}
    assert "1 decisions match no clip of this corpus; the first is 0123456789ab" in summary["warnings"][0]
    assert "0123456789ab" in (corpus.parent / "out/summary.html").read_text(encoding="utf-8")
    before = contents(corpus.parent / "out")
    prepared(corpus, *made)
    assert contents(corpus.parent / "out") == before, "a second time changes nothing"


def test_a_decision_follows_the_sound_to_another_file_and_id(corpus: Path) -> None:
    made = every_kind(corpus)
    before = prepared(corpus, *made)
    (corpus / "sub").mkdir()
    rows = read_manifest(corpus / "manifest.jsonl")
    for file in ("a.wav", "b.wav", "long.wav"):
        (corpus / file).rename(corpus / "sub" / f"renamed-{file}")
    moved = [replace(row, id=f"new-{row.id}", audio=f"sub/renamed-{row.audio}") for row in rows]
    write_manifest(corpus / "manifest.jsonl", moved)
    after = prepared(corpus, *made)
    told = [(row.text, row.start, row.end, row.clip) for row in after.values()]
    assert told == [(row.text, row.start, row.end, row.clip) for row in before.values()]
    assert after.keys() == {f"new-{id}" for id in before}


def test_what_is_edited_is_examined_as_edited(corpus: Path) -> None:
    shorter = Decision(clip=names(corpus)["a"], decision="edit", end=0.3)
    with pytest.raises(SonorantError, match=r"1 of 4 utterances rejected .*1 too short"):
        prepared(corpus, shorter)
    assert "a" not in prepared(corpus, shorter, max_rejected=0.5)
    assert prepared(corpus, replace(shorter, end=2.0))["a"].seconds == 2.0


@pytest.mark.parametrize(("id", "end"), [("a", 3.1), ("long-1", 3.01)])
def test_an_edge_outside_its_clip_is_one_line_and_leaves_all_as_it_was(corpus: Path, id: str, end: float) -> None:
    prepared(corpus)
    before = contents(corpus.parent / "out")
    clip = names(corpus)[id]
    with pytest.raises(SonorantError, match=rf"decisions\.csv: {clip}: column end: {end} s is after the end"):
        prepared(corpus, Decision(clip=clip, decision="edit", end=end))
    assert contents(corpus.parent / "out") == before
