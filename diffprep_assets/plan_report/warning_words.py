"""Phrases that warnings share."""

from diffprep_assets.quantities import share_text


def of_samples(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,} samples ({share_text(part / max(1, whole))})"


def in_short(text: str | None) -> str:
    line = " ".join((text or "").split())
    return line if len(line) <= 60 else f"{line[:57]}..."
