"""What was last published whole of a format, and how a later run tells that it still stands."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from diffprep_assets.dataset import Dataset
from diffprep_assets.freshness import digest_of, fingerprint
from diffprep_assets.layout import Layout
from diffprep_assets.publishing.left_formats import other_outputs
from diffprep_assets.recipe.formats import PREPARE_STAGE, Format
from diffprep_assets.recipe.stage_fields import published_fields
from diffprep_assets.shard.record import ShardRecord
from diffprep_assets.shard_plan.plan import PlannedShard
from diffprep_resources.fastvideo.trees import CACHE
from diffprep_resources.storage.atomic import write_bytes


def published_fingerprint(
    dataset: Dataset, shards: Sequence[PlannedShard], *, format: Format = "energon"
) -> str:
    """The fingerprint of the format's output that holds these shards, and serves of them what is
    not skipped."""
    content = [
        [shard.shard, shard.split, dataset.format_fingerprint(shard, format)] for shard in shards
    ]
    inputs = {"shard": digest_of(content)}
    if format == "energon":
        inputs["empty"] = dataset.empty_text_fingerprint
    skips = {shard.shard: shard.skips_digest for shard in shards if shard.num_skipped}
    if skips:
        inputs["skips"] = digest_of(skips)
    settings = published_fields(dataset.loaded.resolved, format=format)
    return fingerprint(PREPARE_STAGE[format], settings=settings, inputs=inputs)


def output_stamps(layout: Layout) -> dict[str, list[int]]:
    """Size in bytes and mtime in ns of every file of the format's output folder, by name; those of
    formats that lie in folders of their own in there are not its files, nor what a FastVideo
    trainer keeps there of what it read."""
    if not layout.output_dir.is_dir():
        return {}
    others = layout.other_outputs
    return {
        path.relative_to(layout.output_dir).as_posix(): [stat.st_size, stat.st_mtime_ns]
        for entry in sorted(layout.output_dir.iterdir())
        if entry not in others
        for path in (sorted(entry.rglob("*")) if entry.is_dir() else (entry,))
        if path.is_file() and CACHE not in path.parts and (stat := path.stat())
    }


def is_published(
    dataset: Dataset, *, format: Format, wanted: str, records: Sequence[ShardRecord]
) -> bool:
    """Whether the output holds just these shards, as this fingerprint says, no file changed, and
    the other outputs that it speaks of are as they were."""
    layout = dataset.layout.of(format)
    last = last_prepared(layout)
    now = {
        "fingerprint": wanted,
        "files": output_stamps(layout),
        "tars": _digests(records),
        "others": _others(dataset, format),
    }
    return last is not None and {name: last.get(name) for name in now} == now


def write_prepared(
    dataset: Dataset,
    shards: Sequence[PlannedShard],
    records: Sequence[ShardRecord],
    *,
    format: Format,
) -> None:
    """Note that the output of the format holds these shards whole."""
    layout = dataset.layout.of(format)
    content = {
        "fingerprint": published_fingerprint(dataset, shards, format=format),
        "files": output_stamps(layout),
        "tars": _digests(records),
        "others": _others(dataset, format),
        "settings": published_fields(dataset.loaded.resolved, format=format),
        "shards": {shard.shard: dataset.format_fingerprint(shard, format) for shard in shards},
        "skips": {shard.shard: shard.skips_digest for shard in shards if shard.num_skipped},
    }
    write_bytes(layout.prepared, json.dumps(content, sort_keys=True).encode())


def last_prepared(layout: Layout) -> dict[str, Any] | None:
    """What was last published whole: fingerprint, files, settings, shards; None if nothing."""
    try:
        return json.loads(layout.prepared.read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def all_are_published(dataset: Dataset, shards: Sequence[PlannedShard]) -> bool:
    """Whether every format of the recipe was published with just these shards."""
    for format in dataset.recipe.output.formats:
        last: Mapping[str, Any] = last_prepared(dataset.layout.of(format)) or {}
        if last.get("fingerprint") != published_fingerprint(dataset, shards, format=format):
            return False
    return True


def _others(dataset: Dataset, format: Format) -> list[dict[str, Any]]:
    return [asdict(other) for other in other_outputs(dataset, format)]


def _digests(records: Sequence[ShardRecord]) -> dict[str, str]:
    return {record.shard: record.digest for record in records}
