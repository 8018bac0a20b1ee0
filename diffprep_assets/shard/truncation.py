"""How many captions the text encoders cut short, summed over finished shards."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from diffprep_assets.shard.record import ShardRecord

NAMES = {"t5": "T5", "clip": "CLIP"}


@dataclass(frozen=True, slots=True)
class Truncation:
    """One text encoder: of `captions`, those with more tokens than its `limit`, and the longest
    caption in tokens. The text itself is kept whole."""

    encoder: str
    limit: int
    captions: int
    truncated: int
    longest: int

    @property
    def sentence(self) -> str:
        """One line for people."""
        name = NAMES.get(self.encoder, self.encoder)
        percent = 100 * self.truncated / max(self.captions, 1)
        return (
            f"{name} sees {self.limit} tokens: {self.truncated:,} of {self.captions:,} captions "
            f"({percent:.1f}%) are cut short; the longest has {self.longest:,}"
        )


def truncations(records: Iterable[ShardRecord]) -> list[Truncation]:
    """The sums by encoder, in the order of their names; encoders that cut nothing too."""
    sums: dict[str, Truncation] = {}
    for record in records:
        captions = record.num_samples + len(record.rejects)
        for encoder, counts in record.facts.get("tokens", {}).items():
            known = sums.get(encoder, Truncation(encoder, 0, 0, 0, 0))
            sums[encoder] = Truncation(
                encoder,
                limit=max(known.limit, counts.get("limit", 0)),
                captions=known.captions + captions,
                truncated=known.truncated + counts["truncated"],
                longest=max(known.longest, counts["longest"]),
            )
    return [sums[encoder] for encoder in sorted(sums)]


def truncations_json(found: Iterable[Truncation]) -> dict[str, dict[str, Any]]:
    """By encoder, as dataset.json and `--json` have it."""
    return {
        item.encoder: {key: value for key, value in asdict(item).items() if key != "encoder"}
        for item in found
    }


def truncations_of_json(content: Mapping[str, Mapping[str, Any]]) -> list[Truncation]:
    """What `truncations_json` was given."""
    return [Truncation(encoder, **values) for encoder, values in sorted(content.items())]
