"""Storage of shards: a folder or a bucket of immutable objects named by their SHA-256.

objects/<two digits>/<sha256>          an array of a shard
shards/<two digits>/<key>.json         written last; lists the objects of a complete shard
indexes/<sha256>.keys                  the shard keys of an index; `gc` keeps these shards
"""

from sonorant.features.store.place import Place, StoreConfig, open_store
from sonorant.features.store.store import Store

__all__ = ["Place", "Store", "StoreConfig", "open_store"]
