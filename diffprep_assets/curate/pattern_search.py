"""Which texts hold a pattern, found in a process of its own that is ended when it takes too long:
some patterns take time that doubles with each character, and `re` cannot be interrupted."""

import json
import subprocess
import sys
from collections.abc import Sequence

from diffprep_assets.curate import search_process
from diffprep_resources.errors import SettingError

LIMIT_S = 60.0
TEXTS_AT_ONCE = 10_000


def found_patterns(
    texts: Sequence[str], patterns: Sequence[str], *, limit_s: float = LIMIT_S
) -> dict[int, str]:
    """The first of the patterns that each text holds, whatever the case of letters, by the text's
    place; none for a text that holds none. Raises SettingError where some thousand texts take
    longer than the limit, naming the pattern."""
    found: dict[int, str] = {}
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        some = texts[start : start + TEXTS_AT_ONCE]
        for place, number in _searched(some, patterns, limit_s=limit_s).items():
            found[start + int(place)] = patterns[number]
    return found


def _searched(texts: Sequence[str], patterns: Sequence[str], *, limit_s: float) -> dict[str, int]:
    asked = json.dumps({"patterns": list(patterns), "texts": list(texts)})
    try:
        done = subprocess.run(
            [sys.executable, "-I", search_process.__file__],
            input=asked.encode(),
            capture_output=True,
            timeout=limit_s,
            check=True,
        )
    except subprocess.TimeoutExpired as error:
        # It says which pattern it is at.
        reached = [int(word) for word in (error.stderr or b"").split()]
        pattern = patterns[reached[-1] if reached else 0]
        raise SettingError(
            f"curate.filters.banned: /{pattern}/ took longer than {limit_s:g} s over "
            f"{len(texts):,} captions; write it without repeats inside repeats, such as (a+)+"
        ) from error
    return json.loads(done.stdout)
