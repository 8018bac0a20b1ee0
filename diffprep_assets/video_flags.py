"""Flags of FastVideo's preprocessing, made into keys of a recipe."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from diffprep_resources.errors import SettingError

# FastVideo's flag, without `preprocess.`, and the recipe's key for it.
VIDEO_KEYS = {
    "model_path": "model.model_path",
    "workload_type": "video.workload",
    "video_loader_type": "video.loader",
    "dataset_output_dir": "output.output_dir",
    "preprocess_video_batch_size": "model.batch_size",
    "max_height": "video.max_height",
    "max_width": "video.max_width",
    "num_frames": "video.num_frames",
    "train_fps": "video.train_fps",
    "speed_factor": "video.speed_factor",
    "samples_per_file": "video.samples_per_file",
    "video_length_tolerance_range": "video.video_length_tolerance_range",
    "drop_short_ratio": "video.drop_short_ratio",
    "do_temporal_sample": "video.do_temporal_sample",
    "training_cfg_rate": "video.training_cfg_rate",
    "seed": "video.seed",
    # Ours.
    "shard_size": "output.shard_size",
    "max_samples": "output.max_samples",
    "train_split": "output.train_split",
    "t5_max_length": "model.t5_max_length",
    "device": "model.device",
}
# Numbers that may be fractions or have decimals: as a recipe would have them, not as floats.
EXACT = ("train_fps", "speed_factor", "video_length_tolerance_range", "drop_short_ratio")
EXACT_OURS = ("train_split",)
# Flags that decide nothing here, and why.
WITHOUT_EFFECT = {
    "dataloader_num_workers": "the encoding process decodes the next clips itself",
    "flush_frequency": "a shard is written whole, and memory is bounded by one clip",
}
DATASET_TYPES = ("merged", "hf")


def video_flags(given: Mapping[str, Any], *, config: Path | None, folder: Path) -> dict[str, Any]:
    """The flags that were given, by dotted recipe key; `folder` is the working folder.

    Raises SettingError for a mode or dataset type that is not FastVideo's, and where nothing says
    that the dataset is of clips, or where it comes from.
    """
    mode = given["mode"]
    if mode not in (None, "preprocess"):
        raise SettingError(f"--mode must be preprocess, which is all that is done here, got {mode}")
    flags = {key: given[name] for name, key in VIDEO_KEYS.items() if given[name] is not None}
    for name in (*EXACT, *EXACT_OURS):
        if given[name] is not None:
            flags[VIDEO_KEYS[name]] = yaml.safe_load(given[name])
    if given["formats"] is not None:
        flags["output.formats"] = [name.strip() for name in given["formats"].split(",")]
    in_config = _sections(config)
    if "video" not in in_config:
        flags.setdefault("video.workload", "t2v")
    if "output.output_dir" not in flags and not (in_config.get("output") or {}).get("output_dir"):
        raise SettingError("give --preprocess.dataset_output_dir, or output.output_dir in --config")
    if given["dataset_path"] is None and "source" not in in_config:
        raise SettingError("give --preprocess.dataset_path, or a section source in --config")
    return flags | _source(given["dataset_type"], given["dataset_path"], folder=folder)


def notes_on(given: Mapping[str, Any]) -> list[str]:
    """Flags that were given and decide nothing."""
    return [
        f"--preprocess.{name} has no effect: {why}"
        for name, why in WITHOUT_EFFECT.items()
        if given[name] is not None
    ]


def _source(kind: str | None, place: str | None, *, folder: Path) -> dict[str, Any]:
    """The keys of `source`; without a type, a folder that is there is a merged one."""
    if kind is not None and kind not in DATASET_TYPES:
        raise SettingError(
            f"--preprocess.dataset_type must be one of {', '.join(DATASET_TYPES)}, got {kind}"
        )
    if place is None:
        return {}
    is_folder = (folder / Path(place).expanduser()).is_dir()
    if kind == "merged" or (kind is None and (is_folder or "://" in place)):
        return {"source.type": "directory", "source.input_dir": place}
    local = str(folder / Path(place).expanduser()) if is_folder else place
    return {"source.type": "huggingface", "source.hf_dataset": local}


def _sections(config: Path | None) -> Mapping[str, Any]:
    """The config's sections, as far as it can be read: what is wrong with it is told later."""
    try:
        content = yaml.safe_load(config.read_text("utf-8-sig")) if config else None
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return content if isinstance(content, Mapping) else {}
