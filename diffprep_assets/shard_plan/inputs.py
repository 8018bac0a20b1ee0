"""What the plan is made of: bucket tables, verdicts, columns of the source, and their versions."""

from collections.abc import Iterable, Mapping
from typing import Any

import xxhash

from diffprep_assets.bucket.table import read_metadata
from diffprep_assets.bucket.worker import bucket_task, bucket_version
from diffprep_assets.curate.table import read_head as read_verdicts_head
from diffprep_assets.curate.table import read_verdicts
from diffprep_assets.dataset import Dataset
from diffprep_assets.freshness import fingerprint
from diffprep_assets.recipe.stage_fields import bucket_fields
from diffprep_assets.shard_plan.candidates import CandidateFacts
from diffprep_assets.source_index.table import SourceIndex
from diffprep_resources.storage.parquet_tables import table_head

# The digest of a table without a verdict.
NO_VERDICTS = xxhash.xxh3_128_hexdigest(b"")


def candidate_facts(dataset: Dataset) -> CandidateFacts:
    """What stands elsewhere than in the bucket tables: the verdicts that are on disk, and columns
    of the source."""
    layout = dataset.layout
    verdicts = read_verdicts(layout.curate) if layout.curate.exists() else {}
    return CandidateFacts(verdicts, layout, caption_columns(dataset))


def caption_columns(dataset: Dataset) -> tuple[str, ...]:
    """The columns of the source that an output holds."""
    return tuple(dataset.plan_fields.get("mds.caption_columns", ()))


def bucket_fingerprints(
    dataset: Dataset, index: SourceIndex
) -> dict[str, tuple[str | None, str | None]]:
    """For each part the fingerprint its bucket table carries, and the one it should."""
    layout, settings = dataset.layout, bucket_fields(dataset.recipe)
    result: dict[str, tuple[str | None, str | None]] = {}
    for part in index.parts.parts:
        limit = index.parts.limits.get(part)
        task = bucket_task(layout, part, settings=settings, limit=limit)
        metadata = read_metadata(layout.bucket(part))
        found = metadata["fingerprint"] if metadata else None
        result[part] = found, task.fingerprint if task else None
    return result


def input_versions(dataset: Dataset, parts: Iterable[str]) -> dict[str, str | None]:
    """The versions of all that the plan is made of, as it lies on disk."""
    layout = dataset.layout
    parts = list(parts)
    versions = {part: bucket_version(layout.bucket(part)) for part in parts}
    if caption_columns(dataset):
        versions |= {
            f"source_columns/{part}": (table_head(layout.source_columns(part)) or {}).get(
                "fingerprint"
            )
            for part in parts
        }
    return versions | curate_input(read_verdicts_head(layout.curate))


def curate_input(head: Mapping[str, Any] | None) -> dict[str, str | None]:
    """The verdicts' part in a plan's fingerprint, given the head of their table: none where there
    are none, so that a plan from before there was `curate` stays fresh."""
    if head is None or head["digest"] == NO_VERDICTS:
        return {}
    return {"curate": head["digest"]}


def plan_fingerprint(dataset: Dataset, inputs: Mapping[str, str | None]) -> str:
    """The fingerprint of the plan over inputs of these versions (input_versions)."""
    return fingerprint("shard_plan", settings=dataset.plan_fields, inputs=inputs)
