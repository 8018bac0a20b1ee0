"""Skip lists at work: which samples they name, and which of their entries name none."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from diffprep_assets.curate.filters import Rejection
from diffprep_assets.curate.skip_files import SkipEntry, SkipList

NAMED = 5


@dataclass(frozen=True, slots=True)
class SkipCounts:
    """Entries of one list, how many of them name no sample, and the first few of those."""

    entries: int
    unmatched: int
    first_unmatched: tuple[str, ...]


class SkipIndex:
    """All lists as one. `keys_of_ids` gives the source key of a sample id that the plan knows."""

    def __init__(
        self, lists: Mapping[str, SkipList], *, keys_of_ids: Mapping[int, str] | None = None
    ) -> None:
        self._lists = lists
        self._keys: dict[str, tuple[str, SkipEntry]] = {}
        self._digests: dict[str, tuple[str, SkipEntry]] = {}
        self._matched: set[str] = set()
        for name, skip_list in lists.items():
            for entry in skip_list.entries:
                self._add(name, entry, keys_of_ids or {})

    def _add(self, name: str, entry: SkipEntry, keys_of_ids: Mapping[int, str]) -> None:
        if entry.kind == "digest":
            self._digests.setdefault(entry.entry, (name, entry))
            return
        key = entry.entry
        if entry.kind == "sample_id":
            known = keys_of_ids.get(int(key))
            if known is None:
                return
            self._matched.add(key)
            key = known
        self._keys.setdefault(key, (name, entry))

    def rejections(
        self, keys: Sequence[str], groups: Sequence[str], digests: Sequence[str | None]
    ) -> Iterator[tuple[int, Rejection]]:
        """The samples that a list names, by their place: by their own key, by their picture's (all
        its captions), or by its digest. Ask for every sample once, rejected ones too: what was
        found counts as matched."""
        for place, (key, group, digest) in enumerate(zip(keys, groups, digests, strict=True)):
            found = [self._keys.get(key), self._keys.get(group), self._digests.get(digest or "")]
            hits = [hit for hit in found if hit is not None]
            self._matched.update(entry.entry for _, entry in hits)
            if hits:
                name, entry = hits[0]
                message = entry.reason or f"listed in {name}"
                yield place, Rejection("skip_list", message, f"skip_list:{name}")

    def counts(self) -> dict[str, SkipCounts]:
        """What came of each list, once every sample was asked for."""
        return {name: self._counts(skip_list) for name, skip_list in self._lists.items()}

    def _counts(self, skip_list: SkipList) -> SkipCounts:
        left = [entry.entry for entry in skip_list.entries if entry.entry not in self._matched]
        return SkipCounts(len(skip_list.entries), len(left), tuple(islice(left, NAMED)))


def wanted_ids(lists: Mapping[str, SkipList]) -> frozenset[int]:
    """The sample ids that some list holds."""
    return frozenset(
        int(entry.entry)
        for skip_list in lists.values()
        for entry in skip_list.entries
        if entry.kind == "sample_id"
    )
