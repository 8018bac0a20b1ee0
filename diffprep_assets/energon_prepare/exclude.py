"""What split.yaml leaves out: how a skip list reaches energon without a tar being written.

energon 7.4.1 takes `<shard>` or `<shard>/<key>`, braces expanded. A worker whose slice has every
key excluded looks for a sample for ever, so a shard with nothing left goes by its name alone.
"""

from collections.abc import Container, Iterator, Sequence

from diffprep_assets.energon_prepare.names import PublishedShard
from diffprep_assets.shard.record import sample_columns

# A line of YAML takes as long to load as four keys of a range (7 us and 1.7 us): so a range goes
# on over this many keys that the shard does not hold.
WIDEST_GAP = 3


def excluded(shards: Sequence[PublishedShard]) -> list[str]:
    """The entries for these shards, in their order: names, keys, and ranges of keys."""
    entries: list[str] = []
    for shard in shards:
        if not shard.num_served:
            entries.append(shard.name)
        elif shard.skipped:
            (ids,) = sample_columns(shard.samples, "sample_id")
            runs = runs_of(ids, skipped=shard.skipped)
            entries += [f"{shard.name}/{_keys(first, last)}" for first, last in runs]
    return entries


def runs_of(ids: Sequence[int], *, skipped: Container[int]) -> Iterator[tuple[int, int]]:
    """First and last id of each run of skipped ones among a shard's `ids`.

    A run holds no id of the shard that is not skipped, and no wide gap of ids that are elsewhere.
    """
    run: tuple[int, int] | None = None
    for sample_id in sorted(ids):
        if run is not None and (sample_id not in skipped or sample_id - run[1] > WIDEST_GAP + 1):
            yield run
            run = None
        if sample_id in skipped:
            run = (sample_id if run is None else run[0], sample_id)
    if run is not None:
        yield run


def _keys(first: int, last: int) -> str:
    """A key, or a range of keys with its zeros."""
    return f"{first:010d}" if first == last else f"{{{first:010d}..{last:010d}}}"
