"""Export a voice as one HTML page that speaks offline: `sonorant export-page`.

The page contains the graph, ONNX Runtime Web and the lexicon, each as gzip in base64. It speaks only words in the
lexicon: numbers and abbreviations must be written out, and homographs have one pronunciation.
"""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

from sonorant.extras.elsewhere.browser_runtime import BrowserRuntime
from sonorant.extras.elsewhere.exported_lexicon import distinct, pronunciations
from sonorant.files import atomic_file
from sonorant.plugins import load_family
from sonorant.speech import Voice
from sonorant.speech.bundle import Bundle
from sonorant.text.frontend import END, PAUSES, START, Phoneme, SymbolTable

HERE = Path(__file__).parent


def export_page(
    voice: Voice, out: Path, runtime: BrowserRuntime, words_file: Path | None = None, variant: str | None = None
) -> int:
    """Write the page `out` atomically. Return the number of words. `words_file`: see `pronunciations`; `variant`:
    None means the voice's default. Raises SonorantError as `Family.whole_graph` and `pronunciations` do."""
    graph = load_family(voice.description.family).whole_graph(voice.bundle, variant).SerializeToString()
    with atomic_file(out) as file:  # first, because the words take half a minute
        words = pronunciations(voice.frontend, words_file)
        phonemes = distinct(words.values())
        numbers = {phoneme: str(number) for number, phoneme in enumerate(phonemes)}
        lexicon = "\n".join(f"{word} {' '.join(numbers[each] for each in found)}" for word, found in words.items())
        data = {
            "voice": json.dumps(description(voice.bundle, voice.symbols, phonemes)).encode(),
            "lexicon": lexicon.encode(),
            "graph": graph,
            "runtime-script": runtime.script,
            "runtime-program": runtime.program,
        }
        page = (HERE / "speaking.html").read_text(encoding="utf-8")
        page = page.replace("/*SCRIPT*/", (HERE / "speaking.js").read_text(encoding="utf-8"))
        page = page.replace("<!--DATA-->", "\n".join(_in_page(name, content) for name, content in data.items()))
        file.write_text(page, encoding="utf-8")
    return len(words)


def description(bundle: Bundle, symbols: SymbolTable, phonemes: list[Phoneme]) -> dict[str, object]:
    """Return the data for the page's script; tokens are rows (symbol, stress, word start)."""
    pauses = symbols.to_tokens(Phoneme(pause) for pause in PAUSES)[1:-1].tolist()
    return {
        "sampleRate": bundle.description.audio.sample_rate,
        "speakers": list(bundle.description.speakers),
        "prosody": any(each.name == "pitch" for each in bundle.description.graphs["encoder"].inputs),
        "tokens": symbols.to_tokens(phonemes)[1:-1].tolist(),
        "pauses": dict(zip(PAUSES, pauses, strict=True)),
        "start": [START, 0, 0],
        "end": [END, 0, 0],
    }


def _in_page(name: str, content: bytes) -> str:
    """Return `content` as a script element; equal content gives equal bytes."""
    packed = base64.b64encode(gzip.compress(content, mtime=0)).decode()
    return f'<script type="application/gzip" id="{name}">{packed}</script>'
