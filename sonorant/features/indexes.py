"""Find the shards that an index of features or codes needs in a store."""

from pathlib import Path

import numpy as np

from sonorant.features.codes import CodeStore, read_header
from sonorant.features.feature_store import HEADER, FeatureStore
from sonorant.features.store.upkeep import Needed
from sonorant.files import read_json


def needed_of(index: Path) -> Needed | None:
    """Return the shards that the index in folder `index` needs; None if it has no codes. Raises SonorantError if
    damaged."""
    header = read_json(index / HEADER)
    if isinstance(header, dict) and "index" in header:
        objects = np.array(FeatureStore.open(index).index.shard_objects)
    elif "codec" in read_header(index):
        objects = CodeStore.objects_of(index)
    else:
        return None
    return Needed.of(index, (one.tobytes() for one in objects.reshape(-1, 32)))
