"""Whatever a source holds as a caption (bytes, text, a number, a list of these) as clean text."""

import math
import numbers
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import xxhash

from diffprep_resources.captions.encoding import decode_text
from diffprep_resources.errors import SampleReject

Choose = Literal["first", "all", "random"]
Lines = Literal["whole", "each"]


@dataclass(frozen=True, slots=True)
class CaptionTexts:
    """The captions taken, one or more; notes say what a person should know about how."""

    texts: tuple[str, ...]
    notes: tuple[str, ...]


def caption_texts(
    value: object, *, choose: Choose, lines: Lines, allow_empty: bool, seed_key: str
) -> CaptionTexts:
    """The caption or captions that the recipe takes from a raw value.

    `choose: random` is decided by `seed_key` alone. With `lines: each` every line that is not
    empty is a caption. Raises SampleReject no_caption or caption_encoding.
    """
    found, notes = _clean_texts(value)
    if not found:
        raise SampleReject("no_caption", f"no caption: {_described(value)}")
    candidates = [text for text in found if text.strip()]
    if lines == "each":
        candidates = [line for text in candidates for line in text.split("\n") if line.strip()]
    if not candidates:
        if not allow_empty:
            raise SampleReject(
                "no_caption", "the caption is empty; captions.allow_empty: true keeps it"
            )
        return CaptionTexts(("",), tuple(notes))
    texts = _chosen(candidates, choose=choose, seed_key=seed_key)
    if len(texts) < len(candidates):
        notes.append(f"{len(texts)} of {len(candidates)} captions taken ({choose})")
    return CaptionTexts(texts, tuple(dict.fromkeys(notes)))


def _chosen(candidates: list[str], *, choose: Choose, seed_key: str) -> tuple[str, ...]:
    if choose == "all":
        return tuple(candidates)
    if choose == "first":
        return (candidates[0],)
    # A file's name may hold bytes that are no text: Python keeps those as lone surrogates.
    digest = xxhash.xxh3_64_intdigest(seed_key.encode("utf-8", "surrogatepass"))
    return (candidates[digest % len(candidates)],)


def _clean_texts(value: object) -> tuple[list[str], list[str]]:
    """All texts in the value, cleaned, empty ones included, in order; and notes."""
    texts: list[str] = []
    notes: list[str] = []
    for item in _flat(value):
        if isinstance(item, bytes | bytearray | memoryview):
            decoded = decode_text(bytes(item))
            texts.append(_clean(decoded.text))
            if decoded.note:
                notes.append(decoded.note)
        elif isinstance(item, str):
            texts.append(_clean(item))
        elif isinstance(item, numbers.Number) and not isinstance(item, bool):
            texts.append(str(item))
    return texts, notes


def _flat(value: object) -> Iterable[object]:
    """The entries of nested lists in order; missing values (None, NaN, infinity) left out."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        for item in value:
            yield from _flat(item)
    elif value is not None and not (isinstance(value, float) and not math.isfinite(value)):
        yield value


def _clean(text: str) -> str:
    """The text verbatim, but for mark, NUL, carriage returns and the newlines at its end."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise SampleReject(
            "caption_encoding",
            f"the caption holds half a surrogate pair (U+{ord(text[error.start]):04X}) at "
            f"character {error.start}",
        ) from error
    text = text.removeprefix("\ufeff").replace("\0", "")
    return text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")


def _described(value: object) -> str:
    if value is None or isinstance(value, float):
        return "no file or field holds one"
    if isinstance(value, list | tuple):
        kinds = sorted({type(item).__name__ for item in value if item is not None})
        held = f"holding {', '.join(kinds)}" if kinds else "without an entry"
        return f"got a list {held}; allowed are text, bytes, numbers and lists of them"
    return f"got {type(value).__name__}; allowed are text, bytes, numbers and lists of them"
