from pathlib import Path
from unittest.mock import Mock

import pytest

from sonorant.corpus.cache import code_of, compute_missing, key_of


def keys(items: list[int]) -> list[str]:
    return [key_of("square", item) for item in items]


def test_only_what_is_new_is_computed(tmp_path: Path) -> None:
    square = Mock(side_effect=lambda item: {"square": item * item})
    for items in ([1, 2, 3], [3, 2, 4], [4]):
        found = compute_missing(square, items, keys(items), tmp_path, label="square", unit="number")
        assert found == [{"square": item * item} for item in items]
    assert [call.args[0] for call in square.call_args_list] == [1, 2, 3, 4]


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    def breaks_at_three(item: int) -> int:
        if item == 3:
            raise KeyboardInterrupt
        return item

    with pytest.raises(KeyboardInterrupt):
        compute_missing(breaks_at_three, [1, 2, 3, 4], keys([1, 2, 3, 4]), tmp_path, label="", unit="")
    again = Mock(side_effect=lambda item: item)
    assert compute_missing(again, [1, 2, 3, 4], keys([1, 2, 3, 4]), tmp_path, label="", unit="") == [1, 2, 3, 4]
    assert [call.args[0] for call in again.call_args_list] == [3, 4]


def test_without_a_folder_everything_is_computed(tmp_path: Path) -> None:
    square = Mock(side_effect=lambda item: item * item)
    for _ in range(2):
        assert compute_missing(square, [1, 2], keys([1, 2]), None, label="", unit="") == [1, 4]
    assert [call.args[0] for call in square.call_args_list] == [1, 2, 1, 2]


def test_many_items_in_processes_equal_one(tmp_path: Path) -> None:
    items = list(range(100))
    one = compute_missing(abs, items, keys(items), tmp_path / "1", label="", unit="", processes=1)
    assert compute_missing(abs, items, keys(items), tmp_path / "2", label="", unit="", processes=2) == one


def test_a_key_depends_on_every_part_and_on_the_code() -> None:
    import sonorant.audio
    import sonorant.text

    assert len({key_of(1, "a"), key_of("1", "a"), key_of(1, "b"), key_of(1), key_of([1, "a"])}) == 5
    assert code_of(sonorant.audio) != code_of(sonorant.text) != code_of(sonorant.audio, sonorant.text)
