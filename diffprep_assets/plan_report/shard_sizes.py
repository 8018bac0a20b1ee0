"""Whether the shards of an output are of a size that reads and mends well."""

from collections.abc import Iterable

from diffprep_assets.plan_report.facts import OutputSize
from diffprep_assets.quantities import bytes_text
from diffprep_resources.mds.layout import LARGEST_BYTES

SMALL, MANY = 8_000_000, 100
LARGE = 4_000_000_000


def shard_size_warning(outputs: Iterable[OutputSize], *, shards: int) -> str | None:
    """What to know of formats whose shards are very small and many, or very large."""
    found = [_warning(output, shards) for output in outputs]
    return "; ".join(words for words in found if words is not None) or None


def _warning(output: OutputSize, shards: int) -> str | None:
    mean = output.mean_shard
    what = f"{output.format} shards of {bytes_text(mean)} on average"
    if mean < SMALL and shards > MANY:
        return (
            f"{shards:,} {what}: opening files takes longer than reading them. A larger "
            f"output.shard_size makes fewer"
        )
    if output.format == "mds" and mean > LARGEST_BYTES:
        return (
            f"{what}: an MDS shard ends at {bytes_text(LARGEST_BYTES)}, and one that is larger "
            f"fails. Set a smaller output.shard_size"
        )
    if mean > LARGE:
        return (
            f"{what}: a failed or changed one is costly to write again. A smaller "
            f"output.shard_size makes them lighter"
        )
    return None
