"""What a published dataset says of itself and what its files show, gathered for `diffprep info`."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diffprep_assets.dataset_info.members import Lengths, MemberInfo
from diffprep_assets.project import Project
from diffprep_assets.published_at import published_at
from diffprep_assets.publishing.prepared import output_stamps
from diffprep_assets.validate.update import last_validation


@dataclass(frozen=True, slots=True)
class Validity:
    """What is known of the last validation: `state` is valid, changed or unknown."""

    state: str
    words: str
    checked: str | None = None


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """Everything that `info` tells. `provenance` is dataset.json, None for other tools' datasets;
    `kind` says what the folder is: the class in dataset.yaml, `tars`, `MDS` or `FastVideo`;
    `encoding` what the samples hold. `samples` is None where only reading all shards would tell;
    `splits` counts them; `excluded` are names in split.yaml. `loading` is Python that loads it;
    `problems` are sentences.
    """

    path: Path
    provenance: Mapping[str, Any] | None
    kind: str
    encoding: str | None
    shards: int
    samples: int | None
    splits: Mapping[str, int]
    excluded: int
    members: tuple[MemberInfo, ...]
    captions: Lengths | None
    size_bytes: int
    loading: str
    validity: Validity
    problems: tuple[str, ...] = ()


def split_shares(info: DatasetInfo) -> dict[str, float]:
    """The share of each split, of all samples."""
    total = sum(info.splits.values())
    return {
        split: round(count / total, 6) if total else 0.0 for split, count in info.splits.items()
    }


def buckets(info: DatasetInfo) -> list[dict[str, int]]:
    """Samples, shards and bytes by size, by dataset.json; empty for other tools' datasets."""
    return list((info.provenance or {"counts": {"buckets": []}})["counts"]["buckets"])


def validity_of(path: Path, project: Project | None) -> Validity:
    """By the note of the last validation that passed, which lies in the work folder."""
    published = published_at(path, project=project) if project else None
    how = f"`diffprep validate {path}` checks it"
    if published is None:
        return Validity("unknown", f"not known: no recipe here writes this folder; {how}")
    layout = published.layout
    last = last_validation(layout)
    if last is None:
        return Validity("unknown", f"not known: it was not validated yet, or failed; {how}")
    moment = time.localtime(layout.validation.stat().st_mtime)
    checked = time.strftime("%Y-%m-%d %H:%M", moment)
    if last["files"] != output_stamps(layout):
        return Validity("changed", f"files changed since it was valid, {checked}; {how}", checked)
    return Validity("valid", f"valid, checked {checked}, unchanged since", checked)
