"""How an autoregressive voice speaks: its codec, and how often it ran away. Knows nothing of how codes are chosen."""

from __future__ import annotations

from sonorant.report.document import Document
from sonorant.report.figures import optional
from sonorant.report.markup import Cell, Html, note, section, table


def decoding(metrics: Document) -> list[Html]:
    """The section of a voice that has a codec; none of another."""
    codec, decoded = metrics.get("codec"), metrics.get("decoding")
    if codec is None or decoded is None:
        return []
    codebooks = [[f"{place}", f"{100 * use.number():.1f}"] for place, use in enumerate(codec["use"].rows(), 1)]
    amount = f"{codec['bits_per_second'].number():.0f} bit/s, {codec['frames_per_second'].number():.2f} frames a second"
    head = [
        "variant",
        "sentences",
        "ran away",
        "rate, % [95 % interval]",
        "attempts more",
        "still not well",
        "finish_reasons",
    ]
    return [
        section(
            "decoding",
            "Codec and decoding",
            note(f"The codec speaks in {len(codebooks)} codebooks, {amount}."),
            table("Codes in use on the corpus", ["stream", "of its codes, %"], codebooks),
            note(
                "A sentence ran away where a guard had to end its first attempt: its budget was spent, it stood on one phoneme, "
                "fell silent or repeated itself. It is then spoken again in another way, and the best attempt is kept."
            ),
            table(
                "Decoding",
                head,
                [_row(variant, found) for variant, found in decoded.items()],
                prose=("finish_reasons",),
            ),
        )
    ]


def _row(variant: str, found: Document) -> list[Cell]:
    if found.not_run:
        return [variant, found.not_run]
    finish_reasons = ", ".join(f"{name} {count.number():.0f}" for name, count in found["finish_reasons"].items())
    counts = [optional(found, key, ".0f") for key in ("sentences", "runaways")]
    return [
        variant,
        *counts,
        runaway_rate(found),
        *(optional(found, key, ".0f") for key in ("retries", "unrecovered")),
        finish_reasons,
    ]


def runaway_rate(found: Document) -> str:
    """`1.2 [0.3, 4.4]`, in percent."""
    low, high = found["runaway_rate_ci95"].interval()
    return f"{100 * found['runaway_rate'].number():.1f} [{100 * low:.1f}, {100 * high:.1f}]"
