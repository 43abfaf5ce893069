"""What an index of features or codes needs of the store that its shards lie in."""

from pathlib import Path

import numpy as np

from sonorant.data.codes import CodeStore, read_header
from sonorant.data.features import HEADER, FeatureStore
from sonorant.files import read_json
from sonorant.store.upkeep import Needed


def needed_of(index: Path) -> Needed | None:
    """Of the folder that the stage `features` or `train_waveform` wrote; None if it holds no codes.

    Raises SonorantError if it is neither, or damaged.
    """
    header = read_json(index / HEADER)
    if isinstance(header, dict) and "index" in header:
        objects = np.array(FeatureStore.open(index).index.shard_objects)
    elif "codec" in read_header(index):
        objects = CodeStore.objects_of(index)
    else:
        return None
    return Needed.of(index, (one.tobytes() for one in objects.reshape(-1, 32)))
