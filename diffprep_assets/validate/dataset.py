"""Whether a published dataset is whole and a trainer can read all of it."""

import sqlite3
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from diffprep_assets.validate.empty_encodings import empty_encodings_check
from diffprep_assets.validate.encoding import encoding_of
from diffprep_assets.validate.fastvideo import validate_fastvideo
from diffprep_assets.validate.index_rows import open_index
from diffprep_assets.validate.loader_pass import (
    excluded_samples,
    expected_samples,
    loader_check,
    to_read,
)
from diffprep_assets.validate.mds import validate_mds
from diffprep_assets.validate.metadata import DatasetFolder, read_folder
from diffprep_assets.validate.report import Check, Failure, ValidationReport
from diffprep_assets.validate.shards import Findings, ShardInspector
from diffprep_assets.validate.tensors import TensorProfile
from diffprep_resources.compute.base import Report, unheard
from diffprep_resources.errors import SettingError

# What the look at each sample is called, by encoding.
LOOKS = {"preencoded": "tensors", "preencoded_video": "tensors", "raw": "pictures"}


def validate_dataset(
    path: Path,
    *,
    encoding: str | None = None,
    full: bool = False,
    known: Collection[str] = (),
    report: Report = unheard,
) -> ValidationReport:
    """Every check on the dataset in the folder `path`, ours or another tool's; an MDS tree by
    `validate_mds`, FastVideo's by `validate_fastvideo`, one for energon as follows.

    One sample per shard is looked at, all of them and every digest with `full`; every sample goes
    through energon's loader either way, told to `report` as it comes out. A folder with tars and no
    metadata (`finalize: false`) is checked by its tars. Shards that are `known` passed an earlier
    validation and are as they were: of them only some are read, see `to_read`. Without `encoding`
    the folder says what it holds. Raises SettingError for an unknown encoding or a folder that is
    not there.
    """
    _refuse_missing(path)
    encoding = encoding or encoding_of(path)
    if encoding == "mds":
        return validate_mds(path, full=full, known=known, report=report)
    if encoding == "fastvideo":
        return validate_fastvideo(path, full=full, known=known, report=report)
    if encoding not in LOOKS:
        others = "mds, fastvideo"
        raise SettingError(
            f"encoding must be one of {', '.join(LOOKS)}, {others}, got {encoding!r}"
        )
    folder, metadata = read_folder(path, encoding=encoding)
    checks = [metadata]
    findings = _inspect(folder, checks, full=full, known=known)
    facts = _facts(folder, findings, encoding)
    if folder.provenance is not None:
        checks.append(provenance_check(folder, excluded_samples(folder, findings.excluded)))
    profile = findings.profile
    if folder.finalized and encoding == "preencoded" and isinstance(profile, TensorProfile):
        checks.append(empty_encodings_check(folder, profile))
    if folder.finalized:
        expected = expected_samples(folder, findings.excluded)
        wanted = expected if full else to_read(expected, known, excluded=findings.excluded)
        loader, seen = loader_check(folder, expected=wanted, report=report)
        checks.append(loader)
        if wanted == expected:
            facts[seen.holds] = dict(sorted(seen.by_shape.items()))
    return ValidationReport(tuple(checks), facts)


def _refuse_missing(path: Path) -> None:
    if not path.is_dir():
        raise SettingError(
            f"a dataset is a folder, a recipe's output.output_dir; there is none at {path}"
        )


def _inspect(
    folder: DatasetFolder, checks: list[Check], *, full: bool, known: Collection[str]
) -> Findings:
    """What the shards show; adds `sample_counts`, `tensors` or `pictures`, and, when full,
    `digests`."""
    findings = Findings()
    index_failures: tuple[Failure, ...] = ()
    try:
        with open_index(folder) as index:
            inspector = ShardInspector(folder, index, full=full)
            findings = inspector.findings
            for number, name in enumerate(folder.counts):
                # The first one gives the profile that all others must have.
                if number and name in known and not full:
                    inspector.take_as_known(name)
                elif folder.tar(name).is_file():
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
    checks.append(Check(LOOKS[folder.encoding], looked, tuple(findings.looks)))
    if full:
        compared = f"{findings.compared:,} samples compared with digests.parquet"
        checks.append(Check("digests", compared, tuple(findings.digests)))
    return findings


def provenance_check(folder: DatasetFolder, excluded: Mapping[str, int]) -> Check:
    """dataset.json against itself and the index: every listed sample is written or rejected, every
    skipped one is excluded. `excluded` counts them by shard."""
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
    failures += _skip_failures(content, excluded) if folder.finalized else []
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
    if counts.get("skipped"):
        message += f"; {counts['served']:,} served = written - {counts['skipped']:,} skipped"
    return Check("provenance", message, tuple(failures))


def _skip_failures(content: Mapping[str, Any], excluded: Mapping[str, int]) -> Iterator[Failure]:
    """What dataset.json says of skips, against split.yaml, which may leave out more. A dataset.json
    from before there were skips has none."""
    counts = content["counts"]
    skipped, served = counts.get("skipped", 0), counts.get("served", counts["written"])
    if served != counts["written"] - skipped or skipped != sum(counts.get("skips", {}).values()):
        yield Failure(
            f"served {served} is not written {counts['written']} - skipped {skipped}, by rule "
            f"{counts.get('skips', {})}"
        )
    for shard in content["shards"]:
        name, told = shard["name"], shard.get("num_skipped", 0)
        if told > excluded.get(name, 0):
            left_out = f"split.yaml excludes {excluded.get(name, 0)}"
            yield Failure(f"dataset.json says {told} samples are skipped, {left_out}", name)


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
    if isinstance(findings.profile, TensorProfile):
        facts["dtypes"] = list(findings.profile.dtypes)
        facts["text_shapes"] = [
            "x".join(str(side) for side in shape) for shape in findings.profile.text_shapes
        ]
    return facts
