"""Print the contents of a feature store: a JSON line for the store, and one for each utterance.

python -m tasks.show_features --features data/features --first 10
"""

import argparse
import json

from sonorant.features.feature_store import FeatureStore
from tasks.stage import add_inputs, run


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tasks.show_features", description=__doc__)
    add_inputs(parser, "features")
    parser.add_argument("--first", type=int, help="maximum number of utterances to print (default: all)")
    arguments = parser.parse_args()
    store = FeatureStore.open(arguments.features)
    seconds = store.audio.hop / store.audio.sample_rate
    kept = ("version", "audio", "frontend", "speakers", "mel_mean", "mel_std", "content")
    hours = round(int(store.frames.sum()) * seconds / 3600, 3)
    about = {"utterances": len(store), "hours": hours, **{key: store.header[key] for key in kept}}
    print(json.dumps(about, ensure_ascii=False))
    splits, speakers = store.header["splits"], store.header["speakers"]
    for i in range(len(store))[: arguments.first]:
        row = {"id": store.ids[i], "split": splits[store.split[i]], "speaker": speakers[store.speaker[i]]}
        row |= {"seconds": round(float(store.frames[i]) * seconds, 3), "frames": int(store.frames[i])}
        print(json.dumps({**row, "tokens": int(store.tokens_count[i])}, ensure_ascii=False))


if __name__ == "__main__":
    run(main)
