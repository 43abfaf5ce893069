import errno
import os
import stat
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from sonorant import files
from sonorant.audio.wav import write_wav
from sonorant.errors import SonorantError
from sonorant.files import atomic_file, atomic_folder, iterate_jsonl, read_jsonl, write_jsonl, write_text
from tests.support.folders import contents


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names in the order of flushing; `all` for the file system."""
    seen: list[str] = []
    flush, flush_all = files.flush_to_disk, files._flush_file_system

    def one(path: Path) -> None:
        seen.append(path.name)
        flush(path)

    def everything(folder: Path) -> bool:
        seen.append("all")
        return flush_all(folder)

    monkeypatch.setattr(files, "flush_to_disk", one)
    monkeypatch.setattr(files, "_flush_file_system", everything)
    return seen


def fill(folder: Path, count: int) -> None:
    import numpy as np

    (folder / "audio").mkdir()
    for number in range(count):
        write_wav(folder / "audio" / f"{number}.wav", np.zeros(10, dtype=np.float32), 8000)
    write_text(folder / "list.txt", "whole")


def test_a_folder_of_many_files_is_flushed_once(tmp_path: Path, flushed: list[str]) -> None:
    for count in (150, 300):
        flushed.clear()
        with atomic_folder(tmp_path / "corpus") as folder:
            fill(folder, count)
            assert flushed == [], "what is not whole yet need not be on disk"
        assert flushed in (["all", tmp_path.name], ["all", *flushed[1:-1], tmp_path.name])
        assert len(flushed) == 2 or len(flushed) > count, "at once, or where the system cannot, each"


def test_every_file_and_folder_of_few_is_flushed_before_it_appears(tmp_path: Path, flushed: list[str]) -> None:
    with atomic_folder(tmp_path / "corpus") as folder:
        fill(folder, 2)
    assert sorted(flushed[:-1]) == sorted(["audio", "list.txt", "0.wav", "1.wav", folder.name])
    assert flushed[-1] == tmp_path.name


def test_a_system_that_cannot_flush_all_flushes_each(
    tmp_path: Path, flushed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_flush_file_system", lambda _: False)
    with atomic_folder(tmp_path / "corpus") as folder:
        fill(folder, 120)
    assert {f"{number}.wav" for number in range(120)} < set(flushed)


@pytest.mark.parametrize("count", [2, 150])
def test_what_cannot_be_flushed_is_not_there_and_the_former_stays(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with atomic_folder(tmp_path / "corpus") as folder:
        write_text(folder / "former.txt", "former")

    def fails(_: Path) -> bool:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(files, "flush_to_disk", fails)
    monkeypatch.setattr(files, "_flush_file_system", fails)
    with pytest.raises(OSError, match="Input/output"), atomic_folder(tmp_path / "corpus") as folder:
        fill(folder, count)
    assert set(contents(tmp_path)) == {"corpus/former.txt"}
    assert not files._unfinished


def test_a_file_beside_an_unfinished_folder_is_flushed(tmp_path: Path, flushed: list[str]) -> None:
    with atomic_folder(tmp_path / "corpus"), atomic_file(tmp_path / "note") as note:
        note.write_text("now")
    assert flushed[0] == note.name and flushed[1] == tmp_path.name


def test_a_temporary_name_is_of_one_machine_process_and_moment(tmp_path: Path) -> None:
    names = [tmp_path / ("ü" * 125), tmp_path / "n"]
    with atomic_file(names[0]) as one, atomic_file(names[0]) as other, atomic_folder(names[1]):
        for file in (one, other):
            file.touch()
        assert one != other and f".{os.uname().nodename}-{os.getpid()}-" in one.name
    assert set(tmp_path.iterdir()) == set(names)


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP, errno.EIO])
def test_a_file_system_that_cannot_flush_folders_is_named_once(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such as CIFS."""
    flush = os.fsync

    def refuse(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(number, os.strerror(number))
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", refuse)
    monkeypatch.setattr(files, "_unflushed", set())
    for name in ("one", "two"):
        with nullcontext() if number != errno.EIO else pytest.raises(OSError, match="Input/output"):
            with atomic_folder(tmp_path / name) as folder:
                write_text(folder / "a.txt", name)
            write_text(tmp_path / f"{name}.txt", name)
    lines = capsys.readouterr().err.splitlines()
    if number != errno.EIO:
        assert set(contents(tmp_path)) == {"one/a.txt", "one.txt", "two/a.txt", "two.txt"}
        assert len(lines) == 1 and "its file system cannot flush folders" in lines[0]


def test_rows_are_written_one_by_one(tmp_path: Path) -> None:
    begun: list[int] = []

    def rows() -> object:
        for number in range(3):
            begun.append(number)
            yield {"number": number, "text": "one\u2028line"}
            assert not (tmp_path / "rows.jsonl").exists()

    write_jsonl(tmp_path / "rows.jsonl", rows())  # type: ignore[arg-type]
    assert [row["number"] for row in read_jsonl(tmp_path / "rows.jsonl")] == begun == [0, 1, 2]


def interrupted(write: Callable[[], None]) -> None:
    with pytest.raises(KeyboardInterrupt):
        write()


def test_rows_that_end_in_an_error_leave_nothing(tmp_path: Path) -> None:
    def rows() -> object:
        yield {"number": 1}
        raise KeyboardInterrupt

    interrupted(lambda: write_jsonl(tmp_path / "rows.jsonl", rows()))  # type: ignore[arg-type]
    assert contents(tmp_path) == {}


def test_what_is_written_again_never_changes_a_link_of_it(tmp_path: Path) -> None:
    """DVC's cache may link to outputs."""
    cached = [tmp_path / "cached-1", tmp_path / "cached-2"]
    for text in ("before", "after"):
        with atomic_folder(tmp_path / "out") as folder:
            write_text(folder / "one.txt", text)
        write_text(tmp_path / "two.txt", text)
        if text == "before":
            cached[0].hardlink_to(tmp_path / "out/one.txt")
            cached[1].hardlink_to(tmp_path / "two.txt")
            for file in cached:
                file.chmod(0o444)
    assert [file.read_text() for file in cached] == ["before", "before"]
    assert [(tmp_path / name).read_text() for name in ("out/one.txt", "two.txt")] == ["after", "after"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"a": 1}\n\n{"b": \n', "rows.jsonl:3: not valid JSON"),
        (b'{"a": "\xc3\xa4"}\n{"b": "\xe4"}\n', r"not UTF-8 \(byte 19\)"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(data: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_bytes(data)
    rows = iterate_jsonl(tmp_path / "rows.jsonl")
    assert "a" in next(rows), "what stands before it has been read"
    with pytest.raises(SonorantError, match=message):
        next(rows)


def test_only_a_line_feed_ends_a_line(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"a": "one\u2028two"}\r\n \n{"b": 2}', encoding="utf-8", newline="")
    assert read_jsonl(tmp_path / "rows.jsonl") == [{"a": "one\u2028two"}, {"b": 2}]
