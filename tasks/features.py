"""Stage `features`: write mels, samples and phonemes of the accepted utterances and of short clips, in shards."""

import argparse
from pathlib import Path

from sonorant.audio.mel import MelConfig
from sonorant.corpus.manifest import Utterance, read_manifest
from sonorant.corpus.short_clips import FeaturesConfig, read_short_clips
from sonorant.features.feature_writer import write_features
from sonorant.features.store import StoreConfig
from sonorant.features.subset import first_minutes, minutes_of
from sonorant.text import TextConfig
from tasks.params import load
from tasks.stage import add_inputs, run


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tasks.features", description=__doc__)
    add_inputs(parser, "corpus", "prepared")
    parser.add_argument("--out", type=Path, required=True, help="folder to write the index of the feature store to")
    processes = "worker processes, which do not affect the result (default: one per core)"
    parser.add_argument("--processes", type=int, help=processes)
    arguments = parser.parse_args()
    if arguments.processes is not None and arguments.processes < 1:
        parser.error("--processes must be at least 1")
    audio, text = load("audio", MelConfig), load("text", TextConfig)
    config = load("features", FeaturesConfig)
    utterances = chosen(read_manifest(arguments.prepared / "manifest.jsonl"), config.minutes)
    share = config.short_clips
    clips = read_short_clips(utterances, arguments.prepared, share)
    if share:
        training = sum(utterance.split == "train" for utterance in utterances)
        print(f"{len(clips)} short clips cut from {training} training utterances; requested fraction: {share:g}")
    store = load("store", StoreConfig)
    write_features(arguments.corpus, utterances, arguments.out, audio, text, arguments.processes, clips, store=store)


def chosen(utterances: list[Utterance], minutes: float | None) -> list[Utterance]:
    """Return utterances with at most `minutes` of training recordings (None means all) and print the minutes used."""
    if minutes is None:
        return utterances
    there = minutes_of(utterances)
    if there <= minutes:
        print(f"features.minutes is {minutes:g}: all {there:.1f} training minutes are used")
        return utterances
    kept = first_minutes(utterances, minutes)
    print(f"features.minutes is {minutes:g}: {minutes_of(kept):.1f} of {there:.1f} training minutes are used")
    return kept


if __name__ == "__main__":
    run(main, stage="features")
