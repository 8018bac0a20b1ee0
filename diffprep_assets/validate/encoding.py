"""What a dataset's samples hold, told from the folder itself."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from diffprep_assets.energon_prepare.index import MetaFiles
from diffprep_assets.energon_prepare.names import TAR_SUFFIX
from diffprep_assets.layout import Layout
from diffprep_assets.validate.tar_walk import first_sample
from diffprep_resources.pictures.stored import IMAGE_FORMATS

MDS_INDEX = "index.json"


def encoding_of(path: Path) -> str:
    """The encoding that dataset.json or .nv-meta/dataset.yaml names; without either, `mds` where
    there is an MDS index, `raw` where a tar's first sample is a picture, `preencoded_video` where
    it is a clip's, `fastvideo` where there are its files, else `preencoded`."""
    layout = Layout(root=path.parent, dataset=path.name, output_dir=path)
    named = _named(layout)
    if named is not None:
        return named
    if next(_own_files(layout, MDS_INDEX), None) is not None:
        return "mds"
    tar = min(_own_files(layout, f"*{TAR_SUFFIX}"), default=None)
    sample = first_sample(tar) if tar is not None else None
    if tar is None and next(_own_files(layout, "data_chunk_*.parquet"), None) is not None:
        return "fastvideo"
    names = {part.name for part in sample.parts} if sample is not None else set()
    if names & set(IMAGE_FORMATS):
        return "raw"
    # A clip's text has one encoder, which gives no pooled row.
    is_clip = "prompt_embeds.pth" in names and "pooled_prompt_embeds.pth" not in names
    return "preencoded_video" if is_clip else "preencoded"


def _own_files(layout: Layout, pattern: str) -> Iterator[Path]:
    """Files below the folder, less those of outputs that lie in it."""
    for path in layout.output_dir.rglob(pattern):
        if not any(path.is_relative_to(other) for other in layout.other_outputs):
            yield path


def _named(layout: Layout) -> str | None:
    for content in (
        _mapping(layout.dataset_json, json.loads),
        _mapping(MetaFiles(layout.nv_meta).dataset_yaml, yaml.safe_load).get("subflavors"),
    ):
        encoding = content.get("encoding") if isinstance(content, dict) else None
        if isinstance(encoding, str):
            return encoding
    return None


def _mapping(path: Path, parse: Any) -> dict[str, Any]:
    """What the file holds; nothing where there is none, or none that can be read: the checks say
    what is wrong with it."""
    try:
        content = parse(path.read_bytes())
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    return content if isinstance(content, dict) else {}
