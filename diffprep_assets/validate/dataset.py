"""Whether a published dataset is whole and a trainer can read all of it."""

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from diffprep_assets.validate.empty_encodings import empty_encodings_check
from diffprep_assets.validate.index_rows import open_index
from diffprep_assets.validate.loader_pass import expected_samples, loader_check
from diffprep_assets.validate.metadata import DatasetFolder, read_folder
from diffprep_assets.validate.report import Check, Failure, ValidationReport
from diffprep_assets.validate.shards import Findings, ShardInspector
from diffprep_resources.compute.base import Report, unheard
from diffprep_resources.errors import SettingError

ENCODINGS = ("preencoded",)


def validate_dataset(
    path: Path,
    *,
    encoding: str = "preencoded",
    full: bool = False,
    report: Report = unheard,
) -> ValidationReport:
    """Every check on the energon dataset in the folder `path`, ours or another tool's.

    One sample per shard is looked at, all of them and every digest with `full`; every sample goes
    through energon's loader either way, told to `report` as it comes out. A folder with tars and no
    metadata (`finalize: false`) is checked by its tars. Raises SettingError for an unknown encoding
    or a folder that is not there.
    """
    if encoding not in ENCODINGS:
        raise SettingError(f"encoding must be one of {', '.join(ENCODINGS)}, got {encoding!r}")
    if not path.is_dir():
        raise SettingError(
            f"a dataset is a folder, a recipe's output.output_dir; there is none at {path}"
        )
    folder, metadata = read_folder(path, encoding=encoding)
    checks = [metadata]
    findings = _inspect(folder, checks, full=full)
    facts = _facts(folder, findings, encoding)
    if folder.provenance is not None:
        checks.append(provenance_check(folder))
    if folder.finalized and findings.profile is not None:
        checks.append(empty_encodings_check(folder, findings.profile))
    if folder.finalized:
        loader, seen = loader_check(
            folder, expected=expected_samples(folder, findings.excluded), report=report
        )
        checks.append(loader)
        facts["latents"] = dict(sorted(seen.by_shape.items()))
    return ValidationReport(tuple(checks), facts)


def _inspect(folder: DatasetFolder, checks: list[Check], *, full: bool) -> Findings:
    """What the shards show; adds `sample_counts`, `tensors` and, when full, `digests`."""
    findings = Findings()
    index_failures: tuple[Failure, ...] = ()
    try:
        with open_index(folder.meta) as index:
            inspector = ShardInspector(folder, index, full=full)
            findings = inspector.findings
            for number, name in enumerate(folder.counts):
                if folder.tar(name).is_file():
                    inspector.inspect(number, name)
            listed = sum(count or 0 for count in folder.counts.values())
            if folder.finalized and index.has_samples and index.num_samples() != listed:
                message = f"index.sqlite has {index.num_samples()} samples, .info.json {listed}"
                index_failures = (Failure(message),)
    except (sqlite3.Error, pa.ArrowException, OSError) as error:
        index_failures = (Failure(f"the index cannot be read: {error}"),)
    counted = f"{findings.samples:,} samples in {len(folder.counts):,} tars"
    checks.append(Check("sample_counts", counted, (*findings.counts, *index_failures)))
    looked = f"{findings.inspected:,} samples looked at"
    checks.append(Check("tensors", looked, tuple(findings.tensors)))
    if full:
        compared = f"{findings.compared:,} samples compared with digests.parquet"
        checks.append(Check("digests", compared, tuple(findings.digests)))
    return findings


def provenance_check(folder: DatasetFolder) -> Check:
    """dataset.json against itself and the index: every listed sample is written or rejected."""
    content: Mapping[str, Any] = folder.provenance or {}
    counts = content["counts"]
    failures = []
    if counts["listed"] != counts["written"] + counts["rejected"]:
        failures.append(
            Failure(
                f"listed {counts['listed']} is not written {counts['written']} "
                f"+ rejected {counts['rejected']}"
            )
        )
    if counts["rejected"] != sum(counts["rejects"].values()):
        failures.append(Failure(f"rejected {counts['rejected']}, by code {counts['rejects']}"))
    described = {shard["name"]: shard["num_samples"] for shard in content["shards"]}
    for name in sorted(described.keys() | folder.counts.keys()):
        if described.get(name) != folder.counts.get(name):
            failures.append(
                Failure(
                    f"dataset.json says {described.get(name, 'nothing')}, "
                    f".info.json {folder.counts.get(name, 'nothing')}",
                    name,
                )
            )
    message = (
        f"{counts['listed']:,} listed = {counts['written']:,} written "
        f"+ {counts['rejected']:,} rejected"
    )
    return Check("provenance", message, tuple(failures))


def _facts(folder: DatasetFolder, findings: Findings, encoding: str) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "encoding": encoding,
        "shards": len(folder.counts),
        "samples": findings.samples,
        "splits": {
            split: sum(folder.counts.get(name) or 0 for name in names)
            for split, names in folder.splits.items()
        },
        "excluded": len(folder.exclude),
        "size_bytes": findings.size_bytes,
    }
    if findings.profile is not None:
        facts["dtypes"] = list(findings.profile.dtypes)
        facts["text_shapes"] = [
            "x".join(str(side) for side in shape) for shape in findings.profile.text_shapes
        ]
    return facts
