"""Stage `corpus`: list recordings of any kind in one manifest."""

from sonorant.corpus.importers import CorpusConfig, import_corpus
from tasks.params import load
from tasks.stage import run, stage_arguments


def main() -> None:
    source, out = "folder or table of corpus.path", "folder to write: manifest.jsonl and new recordings"
    arguments = stage_arguments("corpus", __doc__, "cache", source=source, out=out)
    import_corpus(arguments.source, arguments.out, load("corpus", CorpusConfig), cache=arguments.cache)


if __name__ == "__main__":
    run(main, stage="corpus")
