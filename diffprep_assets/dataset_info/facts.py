"""What a published dataset says of itself and what its files show, gathered for `diffprep info`."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from diffprep_assets.dataset_info.members import (
    Lengths,
    MemberInfo,
    caption_lengths,
    member_infos,
)
from diffprep_assets.energon_prepare.card import LOADING
from diffprep_assets.energon_prepare.update import output_stamps
from diffprep_assets.layout import Layout
from diffprep_assets.preview.originals import dataset_at
from diffprep_assets.project import Project
from diffprep_assets.validate.metadata import DatasetFolder, read_folder
from diffprep_assets.validate.update import last_validation
from diffprep_resources.errors import DiffprepError, SettingError

OTHER_LOADING = """\
from megatron.energon import WorkerConfig, get_loader, get_train_dataset

workers = WorkerConfig(rank=0, world_size=1, num_workers=0)
dataset = get_train_dataset(
    "{folder}",
    batch_size=4,
    shuffle_buffer_size=1000,
    max_samples_per_sequence=100,
    worker_config=workers,
    # and a task_encoder of the tool that wrote it, for {kind}
)
loader = get_loader(dataset)
"""


@dataclass(frozen=True, slots=True)
class Validity:
    """What is known of the last validation: `state` is valid, changed or unknown."""

    state: str
    words: str
    checked: str | None = None


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """Everything that `info` tells. `provenance` is dataset.json, None for other tools' datasets;
    `kind` is what dataset.yaml says the samples are; `problems` are sentences."""

    path: Path
    folder: DatasetFolder
    kind: str
    encoding: str | None
    members: tuple[MemberInfo, ...]
    captions: Lengths | None
    validity: Validity
    size_bytes: int
    problems: tuple[str, ...] = ()

    @property
    def provenance(self) -> Mapping[str, Any] | None:
        return self.folder.provenance

    @property
    def samples(self) -> int | None:
        """None for tars without metadata, where only reading all of them would tell."""
        counts = list(self.folder.counts.values())
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def splits(self) -> dict[str, int]:
        """Samples by split."""
        counts = self.folder.counts
        return {
            split: sum(counts.get(name) or 0 for name in names)
            for split, names in self.folder.splits.items()
        }

    def loading(self) -> str:
        """Python that loads it; needs the tool's own task encoder where it is not ours."""
        if self.encoding == "preencoded":
            return LOADING.format(folder=self.path).replace("```python\n", "").replace("```\n", "")
        return OTHER_LOADING.format(folder=self.path, kind=self.kind)


def dataset_info(path: Path, *, project: Project | None) -> DatasetInfo:
    """What there is to say. Raises SettingError where there is no folder, DiffprepError where the
    folder holds no dataset that can be read."""
    if not path.is_dir():
        raise SettingError(
            f"a dataset is a folder, a recipe's output.output_dir; there is none at {path}"
        )
    content = _dataset_yaml(path)
    folder, check = read_folder(path, encoding="preencoded")
    # Other kinds of samples are as good here; what the metadata names must be there.
    problems = [str(found) for found in check.failures if "dataset.yaml: " not in found.message]
    if not folder.counts:
        raise DiffprepError(
            f"{path} holds no dataset that can be read: {'; '.join(problems)}. A dataset is the "
            f"folder that holds .nv-meta and the tars"
        )
    encoding = (content.get("subflavors") or {}).get("encoding")
    members = member_infos(folder, problems)
    return DatasetInfo(
        path=path,
        folder=folder,
        kind=str(content.get("__class__") or ("tars" if not folder.finalized else "unknown")),
        encoding=encoding if isinstance(encoding, str) else None,
        members=tuple(members),
        captions=caption_lengths(folder) if folder.finalized else None,
        validity=_validity(path, project),
        size_bytes=_tar_bytes(folder),
        problems=tuple(dict.fromkeys(problems)),
    )


def _dataset_yaml(path: Path) -> Mapping[str, Any]:
    layout = Layout(root=path.parent, dataset=path.name, output_dir=path)
    try:
        content = yaml.safe_load((layout.nv_meta / "dataset.yaml").read_bytes())
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return content if isinstance(content, Mapping) else {}


def _tar_bytes(folder: DatasetFolder) -> int:
    tars = [folder.tar(name) for name in folder.counts]
    return sum(tar.stat().st_size for tar in tars if tar.is_file())


def _validity(path: Path, project: Project | None) -> Validity:
    """By the note of the last validation that passed, which lies in the work folder."""
    dataset = dataset_at(path, project=project) if project else None
    how = f"`diffprep validate {path}` checks it"
    if dataset is None:
        return Validity("unknown", f"not known: no recipe here writes this folder; {how}")
    last = last_validation(dataset.layout)
    if last is None:
        return Validity("unknown", f"not known: it was not validated yet, or failed; {how}")
    moment = time.localtime(dataset.layout.validation.stat().st_mtime)
    checked = time.strftime("%Y-%m-%d %H:%M", moment)
    if last["files"] != output_stamps(dataset.layout):
        return Validity("changed", f"files changed since it was valid, {checked}; {how}", checked)
    return Validity("valid", f"valid, checked {checked}, unchanged since", checked)


def split_shares(info: DatasetInfo) -> dict[str, float]:
    """The share of each split, of all samples."""
    splits = info.splits()
    total = sum(splits.values())
    return {split: round(count / total, 6) if total else 0.0 for split, count in splits.items()}


def buckets(info: DatasetInfo) -> list[dict[str, int]]:
    """Samples, shards and bytes by size, by dataset.json; empty for other tools' datasets."""
    return list((info.provenance or {"counts": {"buckets": []}})["counts"]["buckets"])
