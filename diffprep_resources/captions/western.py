"""Whether bytes that are not UTF-8 are certainly cp1252 (or latin-1, a part of it).

General detectors cannot tell for a short caption: charset-normalizer 3.5 reads "une fille" with an
"a grave" as cp1250, and "man's" with a curly apostrophe as Big5. So the text must look like one
West European language: all its accented letters from one alphabet, in places where such words have
them. What another encoding would make of the bytes fails that (Polish gives superscript threes
inside words, Cyrillic words without an ASCII letter, DOS text accents after the wrong letters).
"""

import re
import unicodedata

# The letters beyond ASCII of each language, lower case. Not Icelandic: its eth, thorn and y acute
# are Turkish letters in cp1254.
_ALPHABETS = {
    "French": "\xe0\xe2\xe6\xe7\xe8\xe9\xea\xeb\xee\xef\xf4\u0153\xf9\xfb\xfc\xff",
    "German": "\xe4\xf6\xfc\xdf\xe9",
    "Spanish": "\xe1\xe9\xed\xf3\xfa\xf1\xfc",
    "Portuguese": "\xe1\xe2\xe3\xe0\xe7\xe9\xea\xed\xf3\xf4\xf5\xfa\xfc",
    "Italian": "\xe0\xe8\xe9\xec\xed\xee\xf2\xf3\xf9\xfa",
    "Swedish": "\xe5\xe4\xf6\xe9\xe0",
    "Danish": "\xe6\xf8\xe5\xe9\xe8\xf2\xf3\xf4\xe2",
    "Dutch": "\xe4\xe7\xe8\xe9\xea\xeb\xef\xf6\xfc",
    "Catalan": "\xe0\xe7\xe8\xe9\xed\xef\xf2\xf3\xfa\xfc",
    "Central": "\xe1\xe9\xed\xf3\xf6\xfc\xe4\u0161\u017e\xdf",
}
# Marks that stand between words, and those that may also stand inside one.
_MARKS = frozenset(
    "\u201c\u201d\u201e\u2026\u20ac\xa3\xa9\xae\u2122\xab\xbb\xa1"
    "\xbf\xb7\u2022\xb0\xbd\xbc\xbe\xd7\xa7\xba\xa0"
)
_INNER_MARKS = frozenset("\u2018\u2019\u2013\u2014")
_LETTER = "A-Za-z\xc0-\xd6\xd8-\xf6\xf8-\xff\u0152\u0153\u0160\u0161\u017d\u017e\u0178"
_WORD = re.compile(f"[{_LETTER}]+")
# Places where the letter does not stand in these languages, but would if the bytes were Romanian,
# Hungarian, Baltic or Polish.
_WRONG_PLACE = re.compile(
    r"\xe3(?![oe])(?!s?\b)|\xf5(?!e)|\u0153(?![uis])|(?<![aeiou])\xeb"
    r"|\xa3(?!\d)|(?<=\s)\u2026|\xa0(?=\s)"
    rf"|[{_LETTER}][\xa3\xa9\xae\xb0\xbd\xbc\xbe\xd7\xa1\xbf\u201e\u20ac][{_LETTER}]"
)


def as_cp1252(data: bytes) -> str | None:
    """The text if it is certainly cp1252, else None."""
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        return None
    unusual = {character for character in text if not character.isascii()}
    letters = {character for character in unusual if _WORD.match(character)}
    marks = unusual - letters
    if any(unicodedata.category(c) == "Cc" and c not in "\r\n\t" for c in text):
        return None
    if not marks <= _MARKS | _INNER_MARKS or (
        "\u201e" in marks and not marks & {"\u201c", "\u201d"}
    ):
        return None
    if _WRONG_PLACE.search(text.lower()) or not all(map(_is_word, _WORD.findall(text))):
        return None
    return text if _is_of_one_language({*"".join(letters).lower()}, text=text) else None


def _is_of_one_language(letters: set[str], *, text: str) -> bool:
    plain = sum(character.isascii() and character.isalpha() for character in text)
    accented = sum(character in letters for character in text.lower())
    if plain < 2 or 2 * plain < accented:
        return False
    if "\xe3" in letters and letters == {"\xe3"} and not re.search(r"\xe3[oe]", text.lower()):
        return False
    return any(letters <= set(alphabet) for alphabet in _ALPHABETS.values())


def _is_word(word: str) -> bool:
    """Whether accents sit in the word as they do in these languages."""
    if word.isascii() or word in (
        "\xe0",
        "\xc0",
        "\xe9",
        "\xc9",
        "\xe8",
        "\xc8",
        "\xf3",
        "\xf2",
        "\xe1",
        "\xe5",
        "\xc5",
        "\xf4",
        "\xf6",
    ):
        return True
    if sum(character.isascii() for character in word) * 3 < len(word):
        return False
    return word.isupper() or not any(c.isupper() and not c.isascii() for c in word[1:])
