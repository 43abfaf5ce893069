"""Stage `prepare`: check every utterance, normalise its text, split the corpus, and write a summary."""

from sonorant.audio.conditioning import ConditionConfig
from sonorant.corpus.preparation import PrepareConfig, prepare
from sonorant.text import TextConfig
from tasks.params import load
from tasks.stage import run, stage_arguments


def main() -> None:
    out = "folder to write: manifest, rejected, summary.json, summary.html"
    arguments = stage_arguments("prepare", __doc__, "corpus", "cache", out=out)
    text, config = load("text", TextConfig), load("prepare", PrepareConfig)
    how = {"lexicon": text.lexicon, "cache": arguments.cache, "condition": load("condition", ConditionConfig)}
    prepare(arguments.corpus, arguments.out, config, text.frontend, **how)


if __name__ == "__main__":
    run(main, stage="prepare")
