import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonorant.errors import SonorantError
from sonorant.features.array_file import ArrayFile, ArrayWriter


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, np.ndarray]:
    rows = np.random.default_rng(1).standard_normal((50, 3)).astype(np.float16)
    with ArrayWriter(tmp_path / "a.npy", np.float16, (3,)) as writer:
        for first in range(0, 50, 7):
            writer.append(rows[first : first + 7])
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
    path.unlink()  # open files stay readable
    assert np.array_equal(file.read(first, count), rows[first : first + count])
    assert np.array_equal(file.read_all(), rows)


def test_a_file_that_is_cut_off_while_it_is_open_is_told_and_no_bus_error(written: tuple[Path, np.ndarray]) -> None:
    path, _ = written
    file = ArrayFile(path)
    os.truncate(path, 200)
    with pytest.raises(SonorantError, match=r"a\.npy: truncated while open; rerun the stage that writes it"):
        file.read(40, 5)


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"\0", lambda data: data[:40]])
def test_a_file_of_another_length_than_it_says_is_refused(
    change: Callable[[bytes], bytes], written: tuple[Path, np.ndarray]
) -> None:
    path, _ = written
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ValueError, match=r"bytes of data|EOF|expected"):
        ArrayFile(path)
