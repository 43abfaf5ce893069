"""Words that are written alike and pronounced by their sense, told apart by the words around them.

gruut tells some by a guessed part of speech; here only where the words around leave little doubt, and the rest stays
with gruut. Phonemes are those of gruut's American English; a frontend without them takes no part."""

import re
from collections.abc import Iterator, Sequence
from functools import cache

from sonorant.errors import SonorantError
from sonorant.text.frontend import Phoneme, Sounds
from sonorant.text.given_phonemes import parse_phonemes

_TO = (
    r"(?:to|will|would|can|could|shall|should|may|might|must|not|never|don't|didn't|won't|can't|doesn't|let's|please|"
    r"cannot|'ll)"
)
_WHO = r"(?:I|you|we|they|who|people)"
_THE = r"(?:a|an|the|this|that|his|her|its|my|your|our|their|some|any|no|each|every|another|one|of|in|on|with|for|from)"
_HAVE = (
    r"(?:have|has|had|having|'ve|'d|be|been|being|was|were|is|are|get|gets|got|haven't|hasn't|hadn't|never|just|"
    r"already)"
)
_START = r"(?:^|[.?!;:\"(]\s*)"
_ADJECTIVE = r"(?:\w+ )?"
_NOT_NEAR = r"(?! (?:to|by|friends?|up|behind|enough|together|beside|at|under|upon|against|on|in)\b)"
_FROM_LEAD = r"\b(?:molten|pencil|of|made of|contains?|containing|melted|zinc and|tin and) "
_OF_LEAD = " (?:pipes?|paint|poisoning|bullets?|pencils?|acid|glass|weights?|shot|sinkers?|roof|coffins?)\\b"
_IS_LIVE = (
    " (?:music|concerts?|shows?|broadcasts?|audiences?|wires?|streams?|streaming|coverage|performances?|band|album|"
    "television|TV|ammunition|animals?|events?|recording)\\b"
)
_CAN_BE_WOUND = r" (?:the|it|up|down|your|his|her|my|around|back|this|them|through|a)\b"
_FISHING = (
    r"\b(?:caught|catch|catching|fish|fishing for|fried|grilled|cooked|sea|striped|largemouth|smallmouth|eat|ate) "
    r"(?:a |an |the |some |two |three )?(?:\w+ )?"
)
_TAKING = r"\b(?:take|took|takes|taking|deep|low|polite|final|made|make) (?:a |his |her |their )?(?:\w+ )?"
_TINY = (
    " (?:details?|amounts?|particles?|quantity|quantities|differences?|traces?|changes?|fractions?|examination|"
    "creatures?)\\b"
)

# word: (phonemes, what stands before, what stands after); the first that fits is taken.
_SENSES: dict[str, tuple[tuple[str, str, str], ...]] = {
    "read": (
        ("ɹ ˈɛ d", rf"\b{_HAVE} (?:\w+ly |also |not )?", ""),
        ("ɹ ˈi d", rf"(?:\b{_TO} (?:\w+ly |also )?|{_START})", ""),
        ("ɹ ˈɛ d", r"\b(?:he|she|it) ", ""),
        ("ɹ ˈɛ d", "", r"[^.?!;]*\b(?:yesterday|ago|last (?:night|week|month|year)|before)\b"),
        ("ɹ ˈi d", rf"\b{_WHO} ", ""),
    ),
    "lead": (
        ("l ˈɛ d", "", _OF_LEAD),
        ("l ˈɛ d", _FROM_LEAD, r"(?=[.,;]|$| (?:and|is|are|was)\b)"),
        ("l ˈi d", "", ""),
    ),
    "live": (
        ("l ˈaɪ v", r"\b(?:the|a) ", r" \w+"),
        ("l ˈaɪ v", "", _IS_LIVE),
        ("l ˈaɪ v", r"\b(?:broadcast|broadcasting|performed|recorded|streamed|going|go|aired|shown) ", ""),
        ("l ˈɪ v", rf"\b(?:{_TO}|{_WHO}) ", ""),
    ),
    "wind": (
        ("w ˈaɪ n d", rf"(?:\b(?:{_TO}|{_WHO}) |{_START})", _CAN_BE_WOUND),
    ),
    "winds": (
        ("w ˈaɪ n d z", r"\b(?:he|she|it|road|path|river|trail|stream|street) ", ""),
    ),
    "wound": (
        ("w ˈaʊ n d", r"\b(?:had|has|have|having) ", ""),
        ("w ˈaʊ n d", r"\b(?:he|she|it|they|I|we|you|road|path|river) (?:slowly |then )?", ""),
        ("w ˈaʊ n d", "", r" (?:up|around|round|down|the|his|its|tightly|through)\b"),
        ("w ˈu n d", "", ""),
    ),
    "close": (
        ("k l ˈoʊ z", rf"(?:\b{_TO} |{_START})", _NOT_NEAR),
        ("k l ˈoʊ z", "", r" (?:the|it|your|his|her|my|our|their|down|this|all|out|off)\b"),
        ("k l ˈoʊ z", rf"\b{_WHO} ", r"(?! (?:to|by)\b)"),
        ("k l ˈoʊ s", r"\b(?:too|so|very|as|how|that|a|how|come|came|stay|stood|get|got) ", ""),
    ),
    "tear": (
        ("t ˈɛ ɹ", rf"(?:\b(?:{_TO}|{_WHO}) |{_START})", r"(?! (?:gas|drops?|ducts?)\b)"),
        ("t ˈɛ ɹ", "", r" (?:it|the|them|up|down|apart|off|out|away|open|in)\b(?! (?:rolled|ran|fell)\b)"),
        ("t ˈɪ ɹ", rf"\b(?:{_THE}|single|shed) {_ADJECTIVE}", ""),
        ("t ˈɪ ɹ", "", r" (?:gas|drops?|ducts?|stained)\b"),
    ),
    "tears": (
        ("t ˈɛ ɹ z", r"\b(?:he|she|it|who|wear and) ", ""),
        ("t ˈɪ ɹ z", rf"\b(?:{_THE}|in|into|to|with|and|shed|wept|cried) {_ADJECTIVE}", ""),
    ),
    "bass": (
        ("b ˈæ s", _FISHING, r"(?! (?:guitar|drum|line|player|clef)\b)"),
        ("b ˈæ s", "", r" (?:fishing|fish|lake|swam|boat)\b"),
        ("b ˈeɪ s", "", ""),
    ),
    "bow": (
        ("b ˈaʊ", _TAKING, r"(?! (?:and arrow|tie)\b)"),
        ("b ˈaʊ", rf"(?:\b(?:{_TO}|{_WHO}) |{_START})", ""),
        ("b ˈaʊ", "", r" (?:of (?:the|a) (?:ship|boat|vessel|canoe|raft|yacht)|down|before|to the)\b"),
        ("b ˈoʊ", "", ""),
    ),
    "dove": (
        ("d ˈoʊ v", r"\b(?:he|she|it|they|we|I|you|who|then|and) ", r"(?! (?:flew|flies|sang|cooed)\b)"),
        ("d ˈoʊ v", "", r" (?:into|in|off|under|down|headfirst|deep)\b"),
        ("d ˈʌ v", "", ""),
    ),
    "minute": (
        ("m aɪ n j ˈu t", r"\b(?:a|the|in|of|very|so|every|most) ", _TINY),
        ("m ˈɪ n ɪ t", "", ""),
    ),
}  # fmt: skip

# word: (noun or adjective, verb)
_NOUN_VERB = {
    "record": ("ɹ ˈɛ k ɚ d", "ɹ ɪ k ˈɔ ɹ d"), "records": ("ɹ ˈɛ k ɚ d z", "ɹ ɪ k ˈɔ ɹ d z"),
    "desert": ("d ˈɛ z ɚ t", "d ɪ z ˈɚ t"), "object": ("ˈɑ b d͡ʒ ɛ k t", "ə b d͡ʒ ˈɛ k t"),
    "objects": ("ˈɑ b d͡ʒ ɛ k t s", "ə b d͡ʒ ˈɛ k t s"), "use": ("j ˈu s", "j ˈu z"),
    "uses": ("j ˈu s ɪ z", "j ˈu z ɪ z"), "house": ("h ˈaʊ s", "h ˈaʊ z"),
    "present": ("p ɹ ˈɛ z ə n t", "p ɹ ɪ z ˈɛ n t"),
    "presents": ("p ɹ ˈɛ z ə n t s", "p ɹ ɪ z ˈɛ n t s"), "excuse": ("ɪ k s k j ˈu s", "ɪ k s k j ˈu z"),
    "abuse": ("ə b j ˈu s", "ə b j ˈu z"), "estimate": ("ˈɛ s t ə m ɪ t", "ˈɛ s t ə m ˌeɪ t"),
    "separate": ("s ˈɛ p ɚ ɪ t", "s ˈɛ p ɚ ˌeɪ t"), "graduate": ("ɡ ɹ ˈæ d͡ʒ u ɪ t", "ɡ ɹ ˈæ d͡ʒ u ˌeɪ t"),
    "moderate": ("m ˈɑ d ɚ ɪ t", "m ˈɑ d ɚ ˌeɪ t"), "advocate": ("ˈæ d v ə k ɪ t", "ˈæ d v ə k ˌeɪ t"),
    "perfect": ("p ˈɚ f ɪ k t", "p ɚ f ˈɛ k t"), "permit": ("p ˈɚ m ɪ t", "p ɚ m ˈɪ t"),
    "produce": ("p ɹ ˈoʊ d u s", "p ɹ ə d ˈu s"), "project": ("p ɹ ˈɑ d͡ʒ ɛ k t", "p ɹ ə d͡ʒ ˈɛ k t"),
    "rebel": ("ɹ ˈɛ b ə l", "ɹ ɪ b ˈɛ l"), "subject": ("s ˈʌ b d͡ʒ ɪ k t", "s ə b d͡ʒ ˈɛ k t"),
    "suspect": ("s ˈʌ s p ɛ k t", "s ə s p ˈɛ k t"), "refuse": ("ɹ ˈɛ f j u s", "ɹ ɪ f j ˈu z"),
    "conduct": ("k ˈɑ n d ʌ k t", "k ə n d ˈʌ k t"), "conflict": ("k ˈɑ n f l ɪ k t", "k ə n f l ˈɪ k t"),
    "contest": ("k ˈɑ n t ɛ s t", "k ə n t ˈɛ s t"), "contract": ("k ˈɑ n t ɹ æ k t", "k ə n t ɹ ˈæ k t"),
    "convict": ("k ˈɑ n v ɪ k t", "k ə n v ˈɪ k t"), "insult": ("ˈɪ n s ʌ l t", "ɪ n s ˈʌ l t"),
    "increase": ("ˈɪ n k ɹ i s", "ɪ n k ɹ ˈi s"), "decrease": ("d ˈi k ɹ i s", "d ɪ k ɹ ˈi s"),
    "progress": ("p ɹ ˈɑ ɡ ɹ ɛ s", "p ɹ ə ɡ ɹ ˈɛ s"), "transport": ("t ɹ ˈæ n s p ɔ ɹ t", "t ɹ æ n s p ˈɔ ɹ t"),
    "import": ("ˈɪ m p ɔ ɹ t", "ɪ m p ˈɔ ɹ t"), "export": ("ˈɛ k s p ɔ ɹ t", "ɛ k s p ˈɔ ɹ t"),
}  # fmt: skip
_VERB_BEFORE = rf"(?:\b(?:{_TO}|{_WHO}|to (?:\w+ly)) )$"
_NO_ADJECTIVE = r"\w*s|people|men|women|children|who|that|which|not|to|and|or|will|would|can"
_NOUN_BEFORE = rf"\b{_THE} (?:(?!(?:{_NO_ADJECTIVE})\b)\w+ )?$"
_NOUNS_BEFORE = rf"\b{_THE} $"
"""Of a word that ends in s, which is a verb as well: your brain uses."""
_WORDS = re.compile(rf"\b(?:{'|'.join([*_SENSES, *_NOUN_VERB])})\b", re.IGNORECASE)
_LETTER_A = re.compile(
    r"(?<!['\w])A(?=,|\.? [A-Z](?!['\w]))|(?<=(?<!['\w])[B-HJ-Z] )A(?![\w'])|(?<=(?<!['\w])[A-Z], )A(?![\w'])"
)
"""The letter, not the article: of A M, U S A, A, B, C."""


def homographs(text: str, symbols: Sequence[str]) -> Iterator[tuple[int, int, Sounds]]:
    """Words of plain text whose pronunciation the words around tell: first character, the one after the last, and what
    to say. `symbols`: the frontend's inventory."""
    found = [*_LETTER_A.finditer(text), *_WORDS.finditer(text)]
    for word in sorted(found, key=lambda match: match.start()):
        if word[0] == "A":
            phonemes: str | None = "ˈeɪ"
        elif word[0].isupper():  # READ, or an abbreviation
            continue
        else:
            phonemes = _sense(word[0].lower(), text[: word.start()], text[word.end() :])
        if phonemes and (sounds := _phonemes(phonemes, tuple(symbols))):
            yield word.start(), word.end(), Sounds(sounds, word[0])


def _sense(word: str, before: str, after: str) -> str | None:
    before, after = before[-80:], after[:80]
    if word in _NOUN_VERB:
        noun, verb = _NOUN_VERB[word]
        if re.search(_VERB_BEFORE, before, re.IGNORECASE):
            return verb
        a_noun = _NOUNS_BEFORE if word.endswith("s") and word != "progress" else _NOUN_BEFORE
        return noun if re.search(a_noun, before, re.IGNORECASE) else None
    for phonemes, left, right in _SENSES[word]:
        if re.search(f"(?:{left})$", before, re.IGNORECASE) and re.match(right, after, re.IGNORECASE):
            return phonemes
    return None


@cache
def _phonemes(written: str, symbols: tuple[str, ...]) -> tuple[Phoneme, ...]:
    """Empty where the inventory has others, as that of another variety of English."""
    try:
        return parse_phonemes(written, symbols, "en")
    except SonorantError:
        return ()
