"""What a source's own table says of a clip, held against the file: the file wins."""

from collections.abc import Mapping
from typing import Any

from diffprep_resources.clips.probe import ClipFacts

# A table's rate may be rounded: 23.98 for 24000/1001.
_RATE_TOLERANCE = 0.005


def stated_note(facts: ClipFacts, stated: Mapping[str, Any]) -> str | None:
    """One note of all that differs, None where nothing does or nothing is stated.

    `stated` is an entry of FastVideo's videos2caption.json: `resolution` with `width` and
    `height`, `fps`, `num_frames`. A size may be the stored or the shown one.
    """
    differing = [*_size(facts, stated), *_frames(facts, stated), *_rate(facts, stated)]
    if not differing:
        return None
    said, found = zip(*differing, strict=True)
    return f"the table says {', '.join(said)}; taken from the file: {', '.join(found)}"


def _size(facts: ClipFacts, stated: Mapping[str, Any]) -> list[tuple[str, str]]:
    resolution = stated.get("resolution")
    if not isinstance(resolution, Mapping):
        return []
    said = (resolution.get("width"), resolution.get("height"))
    shape = facts.shape
    stored = (shape.width, shape.height)
    if None in said or said in (stored, stored[::-1], shape.shown_size, shape.shown_size[::-1]):
        return []
    return [(f"{said[0]}x{said[1]}", f"{stored[0]}x{stored[1]}")]


def _frames(facts: ClipFacts, stated: Mapping[str, Any]) -> list[tuple[str, str]]:
    said, found = stated.get("num_frames"), len(facts.times.pts)
    return [] if said is None or said == found else [(f"{said} frames", f"{found} frames")]


def _rate(facts: ClipFacts, stated: Mapping[str, Any]) -> list[tuple[str, str]]:
    said, found = stated.get("fps"), float(facts.times.mean_rate)
    if said is None:
        return []
    if isinstance(said, int | float) and abs(said - found) <= _RATE_TOLERANCE * found:
        return []
    return [(f"{said} fps", f"{found:.4g} fps")]
