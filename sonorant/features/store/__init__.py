"""Where shards lie: a folder or a bucket of objects that are named by their own SHA-256 and never change.

    objects/<two digits>/<sha256>          an array of a shard, such as its mels
    shards/<two digits>/<key>.json         written last: names the objects of a shard that is whole
    indexes/<sha256>.keys                  the keys of an index that was made from the store; `gc` keeps what it names

Knows nothing of speech: `sonorant.features` says what is in a shard.
"""

from sonorant.features.store.place import Place, StoreConfig
from sonorant.features.store.store import Store, open_store

__all__ = ["Place", "Store", "StoreConfig", "open_store"]
