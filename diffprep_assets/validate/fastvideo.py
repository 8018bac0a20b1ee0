"""Whether a FastVideo dataset is whole, and a trainer can stack and read all of it."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from diffprep_assets.shard_fastvideo.files import file_digest
from diffprep_assets.validate.fastvideo_loader import loader_check
from diffprep_assets.validate.fastvideo_rows import TreeProfile, profile_of, row_failures
from diffprep_assets.validate.fastvideo_trees import FastVideoTrees, read_trees
from diffprep_assets.validate.report import Check, Failure, ValidationReport
from diffprep_resources.compute.base import Report, unheard
from diffprep_resources.fastvideo.reading import file_problems, row_values
from diffprep_resources.storage.parquet_tables import DamagedTableError, readable_table


@dataclass(slots=True)
class _Findings:
    """What the files show: rows by file name, failures by check, sizes."""

    rows: dict[str, int] = field(default_factory=dict)
    counts: list[Failure] = field(default_factory=list)
    looks: list[Failure] = field(default_factory=list)
    looked_at: int = 0
    size_bytes: int = 0


def validate_fastvideo(
    path: Path,
    *,
    full: bool = False,
    known: Collection[str] = (),
    report: Report = unheard,
) -> ValidationReport:
    """Every check on the FastVideo dataset in the folder `path`, ours or another tool's.

    Every file is compared with its digest, and every row's tensors are looked at; of files that are
    `known` to have passed, and are as they were, only the ids are read, unless `full`. One pass by
    `datasets` reads ids and captions of all, every column with `full`.
    """
    trees, metadata = read_trees(path)
    findings = _Findings()
    shapes: dict[str, tuple[int, ...]] = {}
    for tree in trees.files:
        profile = _inspect_tree(trees, tree, findings, known=() if full else known, report=report)
        if profile is not None:
            shapes[tree or "."] = profile.latents
    total = sum(findings.rows.values())
    checks = [
        metadata,
        Check(
            "sample_counts",
            f"{total:,} rows in {len(findings.rows):,} files",
            tuple(findings.counts),
        ),
        Check("rows", f"{findings.looked_at:,} rows looked at", tuple(findings.looks)),
        loader_check(trees, findings.rows, full=full),
    ]
    if trees.provenance is not None:
        checks.append(_provenance_check(trees, findings.rows))
    return ValidationReport(tuple(checks), _facts(trees, findings, shapes))


def _inspect_tree(
    trees: FastVideoTrees,
    tree: str,
    findings: _Findings,
    *,
    known: Collection[str],
    report: Report,
) -> TreeProfile | None:
    """Add what the files of one tree show; what its rows share, None where none can be read."""
    profile: TreeProfile | None = None
    seen: Counter[str] = Counter()
    for name in trees.files[tree]:
        shard, _, file = name.rpartition("/")
        try:
            problems = list(file_problems(trees.path / name, workload=trees.workload))
            findings.counts += [Failure(f"{file}: {problem}", shard) for problem in problems]
            ids = _ids(trees.path / name)
            if profile is None:
                profile = profile_of(trees, tree, trees.path / name)
            if name in known or problems:
                report(len(ids), 0)
            elif profile is not None:
                _look(trees, name, profile, findings, report)
        except DamagedTableError as error:
            findings.counts.append(Failure(f"{file} cannot be read: {error}", shard))
            continue
        seen.update(ids)
        findings.rows[name] = len(ids)
        findings.size_bytes += (trees.path / name).stat().st_size
        findings.counts += _count_failures(trees, name, len(ids), is_known=name in known)
    findings.counts += [
        Failure(f"{tree or trees.path}: id {row_id} is there {count} times")
        for row_id, count in seen.items()
        if count > 1
    ]
    return profile


def _look(
    trees: FastVideoTrees, name: str, profile: TreeProfile, findings: _Findings, report: Report
) -> None:
    for values in row_values(trees.path / name):
        problems = list(row_failures(values, profile, workload=trees.workload))
        shard, key = trees.shard_of(name), str(values["id"])
        findings.looks += [Failure(problem, shard, key) for problem in problems]
        findings.looked_at += 1
        report(1, 1 if problems else 0)


def _ids(path: Path) -> list[str]:
    with readable_table(path):
        return pq.read_table(path, columns=["id"]).column("id").to_pylist()


def _count_failures(
    trees: FastVideoTrees, name: str, rows: int, *, is_known: bool
) -> list[Failure]:
    """The file against what dataset.json says of it."""
    described, (shard, _, file) = trees.described.get(name), name.rpartition("/")
    if described is None:
        return []
    if described["num_rows"] != rows:
        said = described["num_rows"]
        return [Failure(f"{file} holds {rows} rows, dataset.json says {said}", shard)]
    if not is_known and file_digest(trees.path / name) != described["digest"]:
        return [Failure(f"{file}: its bytes changed since it was written", shard)]
    return []


def _provenance_check(trees: FastVideoTrees, rows: Mapping[str, int]) -> Check:
    """dataset.json against itself and the files: every listed sample is written or rejected, and
    every written one is served or skipped."""
    counts: Mapping[str, Any] = (trees.provenance or {})["counts"]
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
    if counts["served"] != sum(rows.values()):
        failures.append(Failure(f"served {counts['served']}, the files hold {sum(rows.values())}"))
    for tree, said in trees.described_trees.items():
        held = sum(rows.get(name, 0) for name in trees.files.get(tree, ()))
        if said["samples"] != held:
            failures.append(
                Failure(f"{tree} holds {held} rows, dataset.json says {said['samples']}")
            )
    message = (
        f"{counts['listed']:,} listed = {counts['written']:,} written "
        f"+ {counts['rejected']:,} rejected"
    )
    if counts["skipped"]:
        message += f"; {counts['served']:,} served = written - {counts['skipped']:,} skipped"
    return Check("provenance", message, tuple(failures))


def _facts(
    trees: FastVideoTrees, findings: _Findings, shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, Any]:
    return {
        "encoding": "fastvideo",
        "workload": trees.workload,
        "shards": len({trees.shard_of(name) for name in findings.rows}),
        "files": len(findings.rows),
        "samples": sum(findings.rows.values()),
        "trees": {
            tree or ".": sum(findings.rows.get(name, 0) for name in names)
            for tree, names in trees.files.items()
        },
        "latents": {tree: "x".join(map(str, shape)) for tree, shape in shapes.items()},
        "size_bytes": findings.size_bytes,
    }
