"""What a recogniser heard, its errors marked word by word. Knows nothing of sound."""

from __future__ import annotations

import jiwer

from sonorant.report.markup import Html, element, join, safe


def marked(reference: str, transcript: str) -> Html:
    """A transcript beside its reference, both normalised: wrong and superfluous words marked, missing ones struck
    through."""
    if not reference:
        return element("mark", transcript) if transcript else Html("")
    output = jiwer.process_words(reference, transcript)
    said, heard = output.references[0], output.hypotheses[0]
    parts: list[Html] = []
    for chunk in output.alignments[0]:
        wanted = " ".join(said[chunk.ref_start_idx : chunk.ref_end_idx])
        words = " ".join(heard[chunk.hyp_start_idx : chunk.hyp_end_idx])
        if chunk.type == "equal":
            parts.append(safe(words))
        elif chunk.type == "delete":
            parts.append(element("del", wanted, title="missing"))
        elif chunk.type == "insert":
            parts.append(element("mark", words, title="superfluous"))
        else:
            parts.append(element("mark", words, title=f"instead of: {wanted}"))
    return join(parts, " ")
