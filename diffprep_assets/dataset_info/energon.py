"""A dataset of tars, ours or another tool's: what its metadata, index and first sample say."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from diffprep_assets.dataset_info.facts import DatasetInfo, validity_of
from diffprep_assets.dataset_info.members import caption_lengths, member_infos
from diffprep_assets.energon_prepare.card_readers import ENCODERS, loading
from diffprep_assets.layout import Layout
from diffprep_assets.project import Project
from diffprep_assets.validate.metadata import DatasetFolder, read_folder
from diffprep_resources.errors import DiffprepError

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


def energon_info(path: Path, *, encoding: str, project: Project | None) -> DatasetInfo:
    """What there is to say. Raises DiffprepError where the folder holds no dataset that can be
    read."""
    content = _dataset_yaml(path)
    folder, check = read_folder(path, encoding=encoding)
    # Other kinds of samples are as good here; what the metadata names must be there.
    problems = [str(found) for found in check.failures if "dataset.yaml: " not in found.message]
    if not folder.counts:
        raise DiffprepError(
            f"{path} holds no dataset that can be read: {'; '.join(problems)}. A dataset is the "
            f"folder that holds .nv-meta and the tars, or an MDS tree"
        )
    members = member_infos(folder, problems)
    named = (content.get("subflavors") or {}).get("encoding") or (
        encoding if folder.provenance else None
    )
    kind = str(content.get("__class__") or ("tars" if not folder.finalized else "unknown"))
    if folder.buckets != ("",):
        kind = f"CrudeWebdataset in {len(folder.buckets):,} folders, one for each bucket"
    return DatasetInfo(
        path=path,
        provenance=folder.provenance,
        kind=kind,
        encoding=named if isinstance(named, str) else None,
        shards=len(folder.counts),
        samples=_samples(folder),
        splits=_splits(folder),
        excluded=len(folder.exclude),
        members=tuple(members),
        captions=caption_lengths(folder) if folder.finalized else None,
        size_bytes=_tar_bytes(folder),
        loading=_loading(folder, named, kind),
        validity=validity_of(path, project),
        problems=tuple(dict.fromkeys(problems)),
    )


def _samples(folder: DatasetFolder) -> int | None:
    """None for tars without metadata, where only reading all of them would tell."""
    counts = list(folder.counts.values())
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _splits(folder: DatasetFolder) -> dict[str, int]:
    return {
        split: sum(folder.counts.get(name) or 0 for name in names)
        for split, names in folder.splits.items()
    }


def _loading(folder: DatasetFolder, encoding: object, kind: str) -> str:
    """Needs the tool's own task encoder where it is not ours."""
    path = str(folder.layout.output_dir)
    if not isinstance(encoding, str) or encoding not in ENCODERS:
        return OTHER_LOADING.format(folder=path, kind=kind)
    if folder.buckets != ("",):
        path += "/metadataset.yaml"
    return loading(encoding, path).replace("```python\n", "").replace("```\n", "")


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
