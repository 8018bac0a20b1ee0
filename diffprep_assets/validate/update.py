"""The published outputs validated, unless the last validation covered exactly what is there."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from diffprep_assets.dataset import Dataset
from diffprep_assets.energon_prepare.provenance import plan_shards, read_provenance
from diffprep_assets.energon_prepare.update import forget_published
from diffprep_assets.freshness import digest_of, fingerprint
from diffprep_assets.layout import Layout
from diffprep_assets.publishing.description import ENCODINGS
from diffprep_assets.publishing.prepared import output_stamps, published_fingerprint
from diffprep_assets.recipe.formats import PREPARE_STAGE, Format
from diffprep_assets.shard.record import mark_bad_keys, read_record
from diffprep_assets.shard_plan.plan import PlannedShard
from diffprep_assets.stage_inputs import missing_whole_stage, shards_of_plan
from diffprep_assets.validate.agreement import agreement_check
from diffprep_assets.validate.dataset import validate_dataset
from diffprep_assets.validate.fastvideo_plan import plan_check
from diffprep_assets.validate.report import Check, ValidationReport
from diffprep_resources.compute.base import Report, unheard
from diffprep_resources.storage.atomic import write_bytes


@dataclass(frozen=True, slots=True)
class Validated:
    """What the validation came to. `checks` by name, those of a passed earlier one included; names
    of formats besides energon begin with theirs. `facts` are by name, or, where there are several
    formats, by format and name."""

    fingerprint: str
    samples: int
    words: str
    checks: Mapping[str, Check]
    facts: Mapping[str, Any]
    reused: bool


def validate_published(dataset: Dataset, *, report: Report = unheard) -> Validated:
    """The checks on every format's output folder, and on what they hold in common. Shards found bad
    are marked, and the next run redoes them.

    Raises StageInputError when a folder does not hold what the plan says it should.
    """
    shards = shards_of_plan(dataset)
    formats = dataset.recipe.output.formats
    outputs = [_validated(dataset, shards, format, report=report) for format in formats]
    checks = {name: check for one in outputs for name, check in one.checks.items()}
    if len(formats) > 1:
        checks["agreement"] = agreement_check(dataset, shards)
    failures = [failure for check in checks.values() for failure in check.failures]
    samples = _written(dataset.layout, shards)
    reused = all(one.reused for one in outputs)
    if failures:
        words = "; ".join(str(failure) for failure in failures[:5])
    elif reused:
        words = f"{samples} samples, nothing changed since the last validation"
    else:
        words = f"{samples} samples, {len(checks)} checks passed"
    by_format = {format: one.facts for format, one in zip(formats, outputs, strict=True)}
    facts = by_format if len(outputs) > 1 else outputs[0].facts
    made = validation_fingerprint(dataset, shards)
    return Validated(made, samples, words, checks, facts, reused)


def validation_fingerprint(dataset: Dataset, shards: Sequence[PlannedShard]) -> str:
    """The fingerprint of the stage: of every format's output."""
    formats = dataset.recipe.output.formats
    found = [format_fingerprint(dataset, shards, format=format) for format in formats]
    return found[0] if len(found) == 1 else digest_of(found)


def format_fingerprint(
    dataset: Dataset, shards: Sequence[PlannedShard], *, format: Format = "energon"
) -> str:
    """The fingerprint that the validation of a format's output has."""
    published = published_fingerprint(dataset, shards, format=format)
    return fingerprint("validate", settings={}, inputs={PREPARE_STAGE[format]: published})


def last_validation(layout: Layout) -> dict[str, Any] | None:
    """What the last passed validation of the layout's format covered: fingerprint, files, checks,
    facts; None when there is none."""
    return _passed(layout).get(layout.format)


def mark_bad(layout: Layout, report: ValidationReport) -> list[str]:
    """The plan's shards that failures name, now marked; the next run writes them anew in the
    layout's format.

    It publishes again whatever failed: bytes may have changed while size and times stayed.
    """
    _keep_passed(layout, None)
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


def check_name(format: Format, name: str) -> str:
    """The name of a format's check in the UI, and in the whole validation."""
    return name if format == "energon" else f"{format}_{name}"


@dataclass(frozen=True, slots=True)
class _Output:
    """One format's checks, by their whole names, and facts."""

    checks: Mapping[str, Check]
    facts: Mapping[str, Any]
    reused: bool


def _validated(
    dataset: Dataset, shards: Sequence[PlannedShard], format: Format, *, report: Report
) -> _Output:
    layout = dataset.layout.of(format)
    files = output_stamps(layout)
    if not files:
        raise missing_whole_stage(dataset, PREPARE_STAGE[format])
    wanted = format_fingerprint(dataset, shards, format=format)
    last = last_validation(layout)
    if last is not None and (last["fingerprint"], last["files"]) == (wanted, files):
        checks = {name: Check(name, message) for name, message in last["checks"].items()}
        return _Output(_named(format, checks.values()), last["facts"], reused=True)
    _keep_passed(layout, None)
    found = validate_dataset(
        layout.output_dir,
        encoding=ENCODINGS[format],
        known=_unchanged(last["files"], files) if last else frozenset(),
        report=report,
    )
    if format == "fastvideo":
        found = replace(found, checks=(*found.checks, plan_check(dataset, shards)))
    facts = json.loads(json.dumps(dict(found.facts)))
    if found.ok:
        messages = {check.name: check.message for check in found.checks}
        covered = {"fingerprint": wanted, "files": files, "checks": messages, "facts": facts}
        _keep_passed(layout, covered)
    else:
        mark_bad(layout, found)
    return _Output(_named(format, found.checks), facts, reused=False)


def _unchanged(before: Mapping[str, list[int]], now: Mapping[str, list[int]]) -> frozenset[str]:
    """The files that a passed validation read, and nobody wrote since; a tar only with its .idx."""
    same = {name for name, stamp in now.items() if before.get(name) == stamp}
    return frozenset(name for name in same if f"{name}.idx" not in now or f"{name}.idx" in same)


def _named(format: Format, checks: Iterable[Check]) -> dict[str, Check]:
    return {check_name(format, check.name): check for check in checks}


def _passed(layout: Layout) -> dict[str, Any]:
    """What passed validations covered, by format."""
    try:
        return json.loads(layout.validation.read_bytes())["formats"]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return {}


def _keep_passed(layout: Layout, covered: Mapping[str, Any] | None) -> None:
    """The note of the layout's format replaced; without one it is removed."""
    passed = {name: note for name, note in _passed(layout).items() if name != layout.format}
    if covered is not None:
        passed[layout.format] = dict(covered)
    if not passed:
        layout.validation.unlink(missing_ok=True)
        return
    content = json.dumps({"formats": passed}, sort_keys=True, indent=1)
    write_bytes(layout.validation, content.encode())


def _written(layout: Layout, shards: Sequence[PlannedShard]) -> int:
    """Samples of the layout's format."""
    records = (read_record(layout.shard_record(shard.shard)) for shard in shards)
    return sum(record.num_samples for record in records if record is not None)
