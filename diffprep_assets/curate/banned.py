"""Captions that hold banned words, or patterns between slashes."""

import re
import unicodedata
from collections.abc import Sequence

from diffprep_assets.curate.pattern_search import found_patterns

_WORD = re.compile(r"\w+")


class Banned:
    """A recipe's list of banned words and patterns, ready to be looked for.

    A word is found as a whole, whatever the case of its letters and however an accent is written;
    between two words of one entry any space may stand.
    """

    def __init__(self, entries: Sequence[str]) -> None:
        self._patterns = [entry[1:-1] for entry in entries if is_pattern(entry)]
        words = {folded(entry): entry for entry in entries if not is_pattern(entry)}
        self._words = {word: entry for word, entry in words.items() if _WORD.fullmatch(word)}
        phrases = {word: entry for word, entry in words.items() if word not in self._words}
        self._phrases = [(_phrase(word), entry) for word, entry in phrases.items() if word]

    def found(self, captions: Sequence[str]) -> dict[int, str]:
        """The first banned entry of each caption that holds one, by the caption's place.

        Raises SettingError for a pattern that takes too long (pattern_search).
        """
        found = {}
        for place, caption in enumerate(captions):
            entry = self._word_in(folded(caption))
            if entry is not None:
                found[place] = entry
        rest = [place for place in range(len(captions)) if place not in found]
        if self._patterns and rest:
            texts = [captions[place] for place in rest]
            for place, pattern in found_patterns(texts, self._patterns).items():
                found[rest[place]] = f"/{pattern}/"
        return found

    def _word_in(self, caption: str) -> str | None:
        if self._words:
            for word in _WORD.findall(caption):
                if word in self._words:
                    return self._words[word]
        return next((entry for phrase, entry in self._phrases if phrase.search(caption)), None)


def is_pattern(entry: str) -> bool:
    """Whether an entry of the list is a pattern between slashes."""
    return len(entry) > 2 and entry.startswith("/") and entry.endswith("/")


def folded(text: str) -> str:
    """The text as it is compared: letters without case, accents written one way."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def _phrase(word: str) -> re.Pattern[str]:
    """What finds an entry that is more than one plain word, such as `stock photo` or `c++`."""
    body = r"\s+".join(map(re.escape, word.split()))
    before = r"(?<!\w)" if re.match(r"\w", word.strip()) else ""
    after = r"(?!\w)" if re.search(r"\w$", word.strip()) else ""
    return re.compile(before + body + after)
