import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonorant.features.grouping import leaves
from sonorant.features.index import Index, Rows, write_index


def rows_of(ids: list[str], most: int = 3) -> Rows:
    """Rows of these ids in shards of at most `most`."""
    random, number = np.random.default_rng(len(ids)), len(ids)
    shards = leaves(ids, most)
    return Rows(
        ids=ids,
        split=random.integers(0, 3, number).astype(np.uint8),
        speaker=random.integers(0, 10**6, number),
        frames=random.integers(1, 1000, number),
        tokens=random.integers(1, 100, number),
        shards=shards,
        objects=random.integers(0, 256, (len(shards), 4, 32)).astype(np.uint8),
    )


@given(ids=st.lists(st.text(st.characters(codec="utf-8"), max_size=5), unique=True, max_size=20))
def test_an_index_gives_back_its_rows(ids: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    store = tmp_path_factory.mktemp("index")
    rows = rows_of(["one", *(name for name in ids if name != "one")])
    index = Index.open(store, write_index(store, rows))
    assert list(index.ids) == rows.ids
    for name in ("split", "speaker", "frames", "tokens"):
        assert np.array_equal(getattr(index, name), getattr(rows, name))
    assert np.array_equal(index.shard_objects, rows.objects)
    assert [index.in_shard(shard).tolist() for shard in range(len(rows.shards))] == [
        members.tolist() for members in rows.shards
    ]
    for shard, members in enumerate(rows.shards):
        assert (index.shard[members] == shard).all()
        for begins, counts in ((index.first_frame, rows.frames), (index.first_token, rows.tokens)):
            assert begins[members].tolist() == [int(counts[members[:n]].sum()) for n in range(len(members))]
