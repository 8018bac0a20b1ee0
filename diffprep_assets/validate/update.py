"""The published dataset validated, unless the last validation covered exactly what is there."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from diffprep_assets.dataset import Dataset
from diffprep_assets.energon_prepare.provenance import plan_shards, read_provenance
from diffprep_assets.energon_prepare.update import (
    forget_published,
    output_stamps,
    published_fingerprint,
)
from diffprep_assets.freshness import fingerprint
from diffprep_assets.layout import Layout
from diffprep_assets.shard.record import mark_bad_keys, read_record
from diffprep_assets.stage_inputs import missing_whole_stage, shards_of_plan
from diffprep_assets.validate.dataset import validate_dataset
from diffprep_assets.validate.report import Check, ValidationReport
from diffprep_resources.compute.base import Report, unheard
from diffprep_resources.storage.atomic import write_bytes


@dataclass(frozen=True, slots=True)
class Validated:
    """What the validation came to; `checks` by name, those of a passed earlier one included."""

    fingerprint: str
    samples: int
    words: str
    checks: Mapping[str, Check]
    facts: Mapping[str, Any]
    reused: bool


def validate_published(dataset: Dataset, *, report: Report = unheard) -> Validated:
    """The checks on the output folder. Shards found bad are marked, and the next run redoes them.

    Raises StageInputError when the folder does not hold what the plan says it should.
    """
    layout = dataset.layout
    shards = shards_of_plan(dataset)
    published = published_fingerprint(dataset, shards)
    wanted = fingerprint("validate", settings={}, inputs={"energon_prepare": published})
    record = {"fingerprint": wanted, "files": output_stamps(layout)}
    if not record["files"]:
        raise missing_whole_stage(dataset, "energon_prepare")
    samples = _written(layout, [shard.shard for shard in shards])
    last = last_validation(layout)
    if last is not None and {name: last.get(name) for name in record} == record:
        checks = {name: Check(name, message) for name, message in last["checks"].items()}
        words = f"{samples} samples, nothing changed since the last validation"
        return Validated(wanted, samples, words, checks, last["facts"], reused=True)
    layout.validation.unlink(missing_ok=True)
    found = validate_dataset(layout.output_dir, report=report)
    checks = {check.name: check for check in found.checks}
    facts = json.loads(json.dumps(dict(found.facts)))
    if found.ok:
        messages = {name: check.message for name, check in checks.items()}
        content = {**record, "checks": messages, "facts": facts}
        write_bytes(layout.validation, json.dumps(content, sort_keys=True, indent=1).encode())
        words = f"{samples} samples, {len(checks)} checks passed"
    else:
        mark_bad(layout, found)
        words = "; ".join(str(failure) for failure in found.failures[:5])
    return Validated(wanted, samples, words, checks, facts, reused=False)


def mark_bad(layout: Layout, report: ValidationReport) -> list[str]:
    """The plan's shards that failures name, now marked; the next run writes them anew.

    It publishes again whatever failed: bytes may have changed while size and times stayed.
    """
    forget_published(layout)
    content = read_provenance(layout.dataset_json)
    names = plan_shards(content) if content else {}
    bad: dict[str, set[str]] = {}
    for failure in report.failures:
        if failure.shard in names:
            keys = bad.setdefault(names[failure.shard], set())
            if failure.key:
                keys.add(failure.key)
    for shard, keys in bad.items():
        mark_bad_keys(layout.shard_bad(shard), keys)
    return sorted(bad)


def _written(layout: Layout, shards: list[str]) -> int:
    records = (read_record(layout.shard_record(shard)) for shard in shards)
    return sum(record.num_samples for record in records if record is not None)


def last_validation(layout: Layout) -> dict[str, Any] | None:
    """What the last passed validation covered; None when there is none."""
    try:
        return json.loads(layout.validation.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
