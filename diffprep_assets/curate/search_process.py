"""Run as a script by pattern_search: which texts hold a pattern. Imports nothing but Python's own.

Reads {"patterns": [...], "texts": [...]} as JSON, writes to stderr which pattern it is at, and to
stdout the first pattern of each text that holds one, {text: pattern} by number.
"""

import json
import re
import sys
from collections.abc import Sequence


def first_found(patterns: Sequence[str], texts: Sequence[str]) -> dict[int, int]:
    """The first pattern that each text holds, by numbers, whatever the case of letters."""
    found: dict[int, int] = {}
    for number, pattern in enumerate(patterns):
        sys.stderr.write(f"{number}\n")
        sys.stderr.flush()
        search = re.compile(pattern, re.IGNORECASE).search
        for place, text in enumerate(texts):
            if place not in found and search(text):
                found[place] = number
    return found


if __name__ == "__main__":
    given = json.load(sys.stdin)
    json.dump(first_found(given["patterns"], given["texts"]), sys.stdout)
