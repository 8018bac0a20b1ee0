"""Whether an MDS tree is whole, and a trainer can read all of it."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from diffprep_assets.energon_prepare.names import NamedContent
from diffprep_assets.energon_prepare.output_state import holds
from diffprep_assets.validate.mds_samples import Expected, sample_problems
from diffprep_assets.validate.mds_tree import MdsTree, read_tree, skip_check
from diffprep_assets.validate.report import Check, Failure, ValidationReport
from diffprep_resources.compute.base import Report, unheard
from diffprep_resources.mds.layout import HASHES, DamagedShardError, ShardConfig, index_entry
from diffprep_resources.mds.reader import ShardReader, decode_sample, open_shard


@dataclass(slots=True)
class _Findings:
    """What the shards seen so far have shown; the first sound one sets the columns where
    dataset.json does not."""

    columns: dict[str, str] | None
    counts: list[Failure] = field(default_factory=list)
    pictures: list[Failure] = field(default_factory=list)
    samples: dict[str, int] = field(default_factory=dict)
    looked_at: int = 0
    decoded: int = 0
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Look:
    """How closely a shard is looked at."""

    full: bool
    is_known: bool
    report: Report


def validate_mds(
    path: Path,
    *,
    full: bool = False,
    known: Collection[str] = (),
    report: Report = unheard,
) -> ValidationReport:
    """Every check on the MDS tree in the folder `path`, ours or another tool's.

    Every shard is compared with its index and digest, and every sample is taken apart; pictures and
    latents of one sample per shard are decoded, of all with `full`. Of shards that are `known` to
    have passed, and are as they were, only the header is read.
    """
    tree, metadata = read_tree(path)
    wanted = (tree.provenance or {}).get("mds", {})
    findings = _Findings(dict(wanted["columns"]) if "columns" in wanted else None)
    for name in sorted(tree.entries):
        if (path / name).is_file():
            look = _Look(full=full, is_known=name in known and not full, report=report)
            _inspect(tree, name, findings, look)
    total = sum(findings.samples.values())
    checks = [
        metadata,
        Check(
            "sample_counts",
            f"{total:,} samples in {len(findings.samples):,} shards",
            tuple(findings.counts),
        ),
        Check(
            "pictures",
            f"{findings.looked_at:,} samples looked at, {findings.decoded:,} decoded",
            tuple(findings.pictures),
        ),
        skip_check(tree, findings.samples),
    ]
    if tree.provenance is not None:
        checks.append(_provenance_check(tree, findings.samples))
    return ValidationReport(tuple(checks), _facts(tree, findings))


def _inspect(tree: MdsTree, name: str, findings: _Findings, look: _Look) -> None:
    """Add what one shard shows."""
    try:
        with open_shard(tree.path / name) as reader:
            header = reader.header
            findings.samples[name] = header.num_samples
            findings.size_bytes += header.offsets[-1]
            problems = [
                *_shard_problems(tree, name, reader, look),
                *_column_problems(header.config, findings),
            ]
            findings.counts += [Failure(problem, name) for problem in problems]
            findings.counts += _index_problems(tree, name, reader)
            _inspect_samples(tree, name, reader, findings, look)
    except (DamagedShardError, OSError) as error:
        findings.counts.append(Failure(f"cannot be read: {error}", name))


def _index_problems(tree: MdsTree, name: str, reader: ShardReader) -> list[Failure]:
    """What the index says of a shard against the shard: published again, it is right again."""
    header, entry = reader.header, tree.entries[name]
    if entry is None:
        return []
    hashes = entry["raw_data"].get("hashes", {})
    said = index_entry(
        header.config,
        basename=name.rpartition("/")[2],
        num_samples=header.num_samples,
        size_bytes=header.offsets[-1],
        digest="",
    )
    known = tree.described.get(name)
    said["raw_data"]["hashes"] = {HASHES[0]: known["digest"]} if known else hashes
    differs = sorted(key for key, value in said.items() if entry.get(key) != value)
    return [Failure(f"{name}: its index says other {', '.join(differs)}")] if differs else []


def _shard_problems(tree: MdsTree, name: str, reader: ShardReader, look: _Look) -> list[str]:
    """The shard against what dataset.json, or else its index, says of its bytes."""
    header, described = reader.header, tree.described.get(name)
    if described and described["num_samples"] != header.num_samples:
        return [f"holds {header.num_samples} samples, dataset.json says {described['num_samples']}"]
    hashes = (tree.entries[name] or {}).get("raw_data", {}).get("hashes", {})
    digest = described["digest"] if described else hashes.get(HASHES[0])
    content = NamedContent(digest or "", header.offsets[-1])
    if digest and not look.is_known and not holds(tree.path / name, content):
        return ["its bytes changed since it was written"]
    return []


def _column_problems(config: ShardConfig, findings: _Findings) -> list[str]:
    columns = {column.name: column.encoding for column in config.columns}
    if findings.columns is None:
        findings.columns = columns
    if columns == findings.columns:
        return []
    differ = {name for name, _ in columns.items() ^ findings.columns.items()}
    return [f"its columns {', '.join(sorted(differ))} are not those of the dataset"]


def _inspect_samples(
    tree: MdsTree, name: str, reader: ShardReader, findings: _Findings, look: _Look
) -> None:
    """Every sample of a shard taken apart; names the sample by its `id`, else by its number."""
    if look.is_known:
        look.report(reader.header.num_samples, 0)
        return
    described = tree.described.get(name)
    expected = Expected(
        (described["width"], described["height"]) if described else None,
        (tree.provenance or {}).get("mds", {}).get("image_format"),
    )
    seen: Counter[str] = Counter()
    for number in range(reader.header.num_samples):
        decode = look.full or number == 0
        try:
            sample = decode_sample(reader.header.config, reader.sample_bytes(number))
        except DamagedShardError as error:
            findings.counts.append(Failure(f"sample {number}: {error}", name))
            continue
        key = str(sample.get("id", number))
        seen[key] += 1
        problems = list(sample_problems(sample, expected, decode=decode))
        findings.pictures += [Failure(problem, name, key) for problem in problems]
        findings.looked_at += 1
        findings.decoded += decode
        look.report(1, 1 if problems else 0)
    twice = [key for key, count in seen.items() if count > 1]
    if twice:
        findings.counts.append(Failure(f"holds id {twice[0]} twice", name))


def _provenance_check(tree: MdsTree, samples: Mapping[str, int]) -> Check:
    """dataset.json against itself and the shards: every listed sample is written or rejected."""
    content: Mapping[str, Any] = tree.provenance or {}
    counts = content["counts"]
    failures = []
    if counts["listed"] != counts["written"] + counts["rejected"]:
        failures.append(
            Failure(
                f"listed {counts['listed']} is not written {counts['written']} "
                f"+ rejected {counts['rejected']}"
            )
        )
    if counts["served"] != counts["written"] - counts["skipped"]:
        failures.append(
            Failure(
                f"served {counts['served']} is not written {counts['written']} "
                f"- skipped {counts['skipped']}"
            )
        )
    if counts["written"] != sum(samples.values()):
        failures.append(
            Failure(f"written {counts['written']}, the shards hold {sum(samples.values())}")
        )
    for name in sorted(tree.described.keys() ^ samples.keys()):
        where = "dataset.json" if name in tree.described else "the folder"
        failures.append(Failure(f"is in {where} only", name))
    message = (
        f"{counts['listed']:,} listed = {counts['written']:,} written "
        f"+ {counts['rejected']:,} rejected"
    )
    return Check("provenance", message, tuple(failures))


def _facts(tree: MdsTree, findings: _Findings) -> dict[str, Any]:
    splits: Counter[str] = Counter()
    for name, count in findings.samples.items():
        splits[tree.described[name]["split"] if name in tree.described else "all"] += count
    return {
        "encoding": "mds",
        "shards": len(findings.samples),
        "samples": sum(findings.samples.values()),
        "splits": dict(sorted(splits.items())),
        "size_bytes": findings.size_bytes,
        "columns": dict(sorted((findings.columns or {}).items())),
    }
