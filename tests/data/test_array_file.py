"""Rows read by place are those that were written, wherever they are read from, and a file that was cut off is told."""

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonorant.data.array_file import ArrayFile, ArrayWriter, array_hash
from sonorant.data.index import FILES, Ids, Index, IndexWriter, write_index
from sonorant.errors import SonorantError


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, np.ndarray]:
    rows = np.random.default_rng(1).standard_normal((50, 3)).astype(np.float16)
    with ArrayWriter(tmp_path / "a.npy", np.float16, (3,)) as writer:
        for first in range(0, 50, 7):
            writer.append(rows[first : first + 7])
    assert writer.sha256 == array_hash(tmp_path / "a.npy")
    return tmp_path / "a.npy", rows


def test_what_grew_by_appending_is_the_file_that_numpy_writes(written: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    path, rows = written
    np.save(tmp_path / "b.npy", rows)
    assert path.read_bytes() == (tmp_path / "b.npy").read_bytes()


@given(first=st.integers(0, 60), count=st.integers(0, 60))
def test_rows_are_those_of_a_slice(first: int, count: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    path, rows = tmp_path_factory.mktemp("rows") / "rows.npy", np.arange(50)
    np.save(path, rows)
    file = ArrayFile(path)
    path.unlink()  # what is open is read to the end
    for _ in range(2):
        assert np.array_equal(file.read(first, count), rows[first : first + count])
        file.hold()


def test_what_is_read_is_a_copy(written: tuple[Path, np.ndarray]) -> None:
    path, rows = written
    file = ArrayFile(path)
    for _ in range(2):
        file.read(3, 4)[:] = 0
        assert np.array_equal(file.read(3, 4), rows[3:7])
        file.hold()


def test_a_file_that_is_cut_off_while_it_is_open_is_told_and_no_bus_error(written: tuple[Path, np.ndarray]) -> None:
    path, _ = written
    file = ArrayFile(path)
    os.truncate(path, 200)
    with pytest.raises(SonorantError, match=r"a\.npy: was cut off while it was read; run its stage again"):
        file.read(40, 5)


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"\0", lambda data: data[:40]])
def test_a_file_of_another_length_than_it_says_is_refused(
    change: Callable[[bytes], bytes], written: tuple[Path, np.ndarray]
) -> None:
    path, _ = written
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ValueError, match=r"bytes of data|EOF|expected"):
        ArrayFile(path)


rows_of_an_index = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.text(st.characters(codec="utf-8"), max_size=5),
            "split": st.integers(0, 2),
            "speaker": st.integers(0, 10**6),
            "frames": st.integers(1, 1000),
            "tokens": st.integers(1, 100),
        }
    ),
    min_size=1,
    max_size=20,
)


@given(rows=rows_of_an_index)
def test_an_index_gives_back_its_rows(rows: list[dict], tmp_path_factory: pytest.TempPathFactory) -> None:
    store = tmp_path_factory.mktemp("index")
    rows[0]["id"] = "ä" + rows[0]["id"]  # one byte of ids at least
    index = Index.open(store, write_index(store, rows))
    assert [index.row(i) for i in range(len(index))] == rows
    assert index.ids[-1] == rows[-1]["id"] and list(index.ids) == [row["id"] for row in rows]
    assert index.first_frame.tolist() == [sum(row["frames"] for row in rows[:i]) for i in range(len(rows))]
    assert index.first_token.tolist() == [sum(row["tokens"] for row in rows[:i]) for i in range(len(rows))]


def test_ids_are_a_sequence_of_strings() -> None:
    ids = Ids(np.frombuffer("onezwölf".encode(), np.uint8), np.array([3, 3, 9]))
    assert (list(ids), ids[-1], ids[1:], len(ids)) == (["one", "", "zwölf"], "zwölf", ["", "zwölf"], 3)
    with pytest.raises(IndexError):
        ids[3]


def test_an_index_is_written_in_memory_that_does_not_grow(tmp_path: Path) -> None:
    """And takes some 50 bytes of disk an utterance, and none of memory to open."""
    sizes = []
    for number in (500, 5000):
        store = tmp_path / str(number)
        store.mkdir()
        tracemalloc.start()
        with IndexWriter(store) as writer:
            for n in range(number):
                writer.append(id=f"u{n:07d}", split=0, speaker=n % 9, frames=500, tokens=90)
        sizes.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        tracemalloc.start()
        index = Index.open(store, writer.content)
        opened = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert len(index) == number and opened < 100_000
        assert sum((store / file).stat().st_size - 128 for file in FILES) == number * (6 * 8 + 1 + 8)
    assert sizes[1] < sizes[0] + 50_000


def test_an_index_of_other_content_is_refused(tmp_path: Path) -> None:
    rows = [{"id": "a", "split": 0, "speaker": 0, "frames": 3, "tokens": 2}]
    content = write_index(tmp_path, rows)
    assert Index.open(tmp_path, content).row(0) == rows[0]
    with pytest.raises(SonorantError, match="index: not what the header was written for; run: dvc repro features"):
        Index.open(tmp_path, "0" * 64)
