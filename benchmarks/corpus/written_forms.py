"""Are written forms of English spoken in the right words?

300 dates, sums, units, addresses, abbreviations and homographs for which the rules were made, and 60 held-out ones
that were written before the rules.

    python -m benchmarks written_forms              the suite, by kind, next to gruut alone
    python -m benchmarks written_forms --wrong      also each form that is spoken wrong
    python -m benchmarks written_forms --save       also keeps the result

Prints one line of JSON last; exits non-zero if more of the suite is wrong than the claim allows.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.corpus.plain_gruut import plain_processor
from benchmarks.report import command, finish, options
from sonorant.text import Frontend, load_frontend
from sonorant.text.frontend import Phoneme
from sonorant.text.user_lexicon import parse_phonemes

FORMS = Path(__file__).parent / "forms"
MOST_WRONG = 5
"""Maximum of the suite's 300."""
MOST_WRONG_HELD_OUT = 12
"""Maximum of the 60 held-out forms: a fifth."""
_AND = re.compile(r"\b(hundred|thousand|million) and (?=\w)(?!cents)")
_SOUND = re.compile(r"(\w+)\{(.+?)\}")

SHORT = {"every": 10}

Speak = Callable[[str], tuple[str, list[str]]]
"""Maps a text to its words and each word's phonemes without stress."""


@dataclass(frozen=True)
class Form:
    kind: str
    written: str
    spoken: tuple[str, ...]
    """Acceptable words."""
    sounds: tuple[tuple[str, str], ...]
    """Words whose pronunciation is checked too, with their phonemes."""

    def is_right(self, words: str, phonemes: list[str], symbols: tuple[str, ...]) -> bool:
        """`words`: the text as spoken; `phonemes`: of each word, without stress."""
        if plain(words) not in {plain(right) for right in self.spoken}:
            return False
        spoken = plain(words).split()
        if not self.sounds:
            return True
        if len(spoken) != len(phonemes):
            return False
        wanted = Counter((word.lower(), bare(parse_phonemes(sound, symbols, "en-us"))) for word, sound in self.sounds)
        names = {word for word, _ in wanted}
        return wanted == Counter((word, sound) for word, sound in zip(spoken, phonemes, strict=True) if word in names)


def read_forms(path: Path) -> list[Form]:
    forms = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            kind, written, spoken = line.split("|")
            sounds = tuple(_SOUND.findall(written))
            forms.append(Form(kind, _SOUND.sub(r"\1", written), tuple(spoken.split(" / ")), sounds))
    return forms


def plain(words: str) -> str:
    """Words without case, punctuation, hyphens, and the "and" of "hundred and one"."""
    words = re.sub(r"[^\w\s']", " ", words.lower().replace("o'clock", "oclock")).replace("'", "")
    return _AND.sub(r"\1 ", " ".join(words.split()))


def bare(phonemes: tuple[Phoneme, ...]) -> str:
    return " ".join(phoneme.symbol for phoneme in phonemes)


def by_frontend(frontend: Frontend) -> Speak:
    def speak(written: str) -> tuple[str, list[str]]:
        spoken = frontend.speak(written)
        words: list[list[Phoneme]] = []
        for phoneme in spoken.phonemes:
            if phoneme.word_start:
                words.append([])
            if words and phoneme.symbol not in ",.?!":
                words[-1].append(phoneme)
        return spoken.text, [bare(tuple(word)) for word in words]

    return speak


_processor = cache(plain_processor)


def gruut_alone(written: str) -> tuple[str, list[str]]:
    processor = _processor("en-us")
    try:
        sentences = list(processor.sentences(*processor(written, lang="en-us")))
    except Exception:  # its parsers raise anything
        return "", []
    words = [word for sentence in sentences for word in sentence if word.is_spoken]
    phonemes = [" ".join(phone.strip("ˈˌ") for phone in word.phonemes or ()) for word in words]
    return " ".join(word.text for word in words), phonemes


def judge(forms: list[Form], speak: Speak, symbols: tuple[str, ...]) -> list[str]:
    wrong = []
    for form in forms:
        words, phonemes = speak(form.written)
        if not form.is_right(words, phonemes, symbols):
            sounds = f" [{' | '.join(phonemes)}]" if form.sounds else ""
            wrong.append(f"{form.kind}: {form.written} -> {words}{sounds} (right: {form.spoken[0]})")
    return wrong


def main() -> None:
    parser = command(__doc__)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="judge every Nth form alone")
    parser.add_argument("--wrong", action="store_true", help="print each form of the suite that is spoken wrong")
    parser.add_argument("--wrong-held-out", action="store_true", help="those held out too: then they are so no longer")
    arguments = options(parser, SHORT)
    frontend = load_frontend("gruut", "en-us")
    systems = {"gruut alone": gruut_alone, "frontend": by_frontend(frontend)}
    result: dict[str, Any] = {}
    for suite in ("suite", "held_out"):
        forms = read_forms(FORMS / f"{suite}.txt")[:: arguments.every]
        wrong = {name: judge(forms, speak, frontend.symbols) for name, speak in systems.items()}
        result[suite] = {"forms": len(forms)} | {name: len(lines) for name, lines in wrong.items()}
        result[suite]["by_kind"] = {
            kind: {"forms": count}
            | {name: sum(line.startswith(f"{kind}:") for line in wrong[name]) for name in systems}
            for kind, count in Counter(form.kind for form in forms).items()
        }
        if arguments.wrong_held_out if suite == "held_out" else arguments.wrong:
            print("\n".join(wrong["frontend"]))
        print(f"{suite}: " + ", ".join(f"{name} {len(lines)} of {len(forms)} wrong" for name, lines in wrong.items()))
    claims = {
        f"at most {MOST_WRONG} of the suite are wrong": result["suite"]["frontend"] <= MOST_WRONG,
        f"at most {MOST_WRONG_HELD_OUT} of those held out": result["held_out"]["frontend"] <= MOST_WRONG_HELD_OUT,
    }
    finish("written_forms", result, claims, arguments)


if __name__ == "__main__":
    main()
