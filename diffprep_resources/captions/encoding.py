"""Bytes of a caption as text, only where the encoding is certain. The locale never matters."""

import codecs
from dataclasses import dataclass

from charset_normalizer import from_bytes

from diffprep_resources.captions.western import as_cp1252
from diffprep_resources.errors import SampleReject

MAX_GUESSED_BYTES = 1 << 16
"""Longest caption whose encoding is guessed; UTF-8 and a byte order mark know no limit."""

# The longer marks first: UTF-32-LE begins with the mark of UTF-16-LE.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CJK = ("Chinese", "Japanese", "Korean")


@dataclass(frozen=True, slots=True)
class DecodedText:
    """Text as it stands in the bytes, without byte order mark; a note where it was not UTF-8."""

    text: str
    note: str | None


def decode_text(data: bytes) -> DecodedText:
    """The text of the bytes. Raises SampleReject caption_encoding where it is not certain."""
    marked = _by_mark(data)
    if marked is not None:
        return marked
    wide = _wide_without_mark(data)
    if wide is not None:
        return wide
    try:
        return DecodedText(data.decode("utf-8"), None)
    except UnicodeDecodeError as error:
        problem = f"byte {data[error.start]:#04x} at offset {error.start}"
    guessed = _guess(data) if len(data) <= MAX_GUESSED_BYTES else None
    if guessed is None:
        raise SampleReject(
            "caption_encoding",
            f"the caption is not UTF-8 ({problem}), and its encoding is not certain; "
            "save it as UTF-8",
        )
    return guessed


def _by_mark(data: bytes) -> DecodedText | None:
    for mark, encoding in _MARKS:
        if not data.startswith(mark):
            continue
        try:
            text = data[len(mark) :].decode(encoding)
        except UnicodeDecodeError as error:
            if encoding == "utf-32-le":
                continue
            raise SampleReject(
                "caption_encoding",
                f"the caption begins with the mark of {encoding}, but is not: {error.reason} at "
                f"offset {error.start + len(mark)}",
            ) from error
        return DecodedText(text, None if encoding == "utf-8" else f"caption read as {encoding}")
    return None


def _wide_without_mark(data: bytes) -> DecodedText | None:
    """UTF-16 or UTF-32 told by its zero bytes: half of a Latin text's, always in the same place."""
    if b"\0" not in data or len(data) % 2:
        return None
    zero_at = [data[at::4].count(0) * 4 * 2 >= len(data) for at in range(4)]
    encodings = {
        (False, True, True, True): "utf-32-le",
        (True, True, True, False): "utf-32-be",
        (False, True, False, True): "utf-16-le",
        (True, False, True, False): "utf-16-be",
    }
    encoding = encodings.get((zero_at[0], zero_at[1], zero_at[2], zero_at[3]))
    if encoding is None:
        return None
    try:
        return DecodedText(data.decode(encoding), f"caption read as {encoding}")
    except UnicodeDecodeError:
        return None


def _guess(data: bytes) -> DecodedText | None:
    western = as_cp1252(data)
    if western is not None:
        return DecodedText(western, "caption read as cp1252")
    match = from_bytes(data).best()
    if match is None or match.percent_chaos > 2:
        return None
    # Tried on sentences in 17 languages and 30 encodings: below these bounds, and for Latin
    # letters at any, the guess is often another text.
    if match.percent_coherence < (10 if match.language in _CJK else 40):
        return None
    text = str(match)
    letters = [character for character in text if character.isalpha()]
    if not letters or sum(_is_latin(character) for character in letters) * 2 > len(letters):
        return None
    return DecodedText(text, f"caption read as {match.encoding}")


def _is_latin(character: str) -> bool:
    return ord(character) < 0x250
