"""Stage `audit`: score how well each utterance's audio matches its text, and drop doubtful utterances."""

from sonorant.corpus.audit.audit import AuditConfig, audit
from sonorant.corpus.importers import CorpusConfig
from sonorant.text import TextConfig
from tasks.params import load
from tasks.stage import run, stage_arguments

SYNTHETIC = "a synthesiser spoke the texts of corpus.kind demo, so they are correct"


def main() -> None:
    out = "folder to write: manifest.jsonl of kept utterances, audit.jsonl, dropped.jsonl, summary.json, audit.html"
    arguments = stage_arguments("audit", __doc__, "corpus", "prepared", "cache", out=out)
    skip = SYNTHETIC if load("corpus", CorpusConfig).kind == "demo" else None
    config, text = load("audit", AuditConfig), load("text", TextConfig)
    folders = (arguments.corpus, arguments.prepared, arguments.out)
    audit(*folders, config, text.frontend, lexicon=text.lexicon, cache=arguments.cache, skip=skip)


if __name__ == "__main__":
    run(main, stage="audit")
