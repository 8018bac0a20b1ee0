"""A source looked through by the code of `source_index`, `download` and `bucket` alone."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from PIL import Image

from diffprep_assets.bucket.scan import BucketRules
from diffprep_assets.bucket.table import BucketRow, other_member_counts, read_rows
from diffprep_assets.bucket.worker import BucketSpec, bucket_task
from diffprep_assets.dataset import Dataset
from diffprep_assets.download.worker import DownloadSpec, download_task
from diffprep_assets.recipe.load import load_recipe
from diffprep_assets.recipe.stage_fields import bucket_fields
from diffprep_assets.source_index.listing import listed_index
from diffprep_assets.source_index.table import write_index
from diffprep_resources.compute.base import unheard
from diffprep_resources.pictures.decode import load_upright
from diffprep_resources.pictures.fit import Crop, fit
from diffprep_resources.sources.base import Location


@dataclass(frozen=True)
class LookedThrough:
    """The rows of a dataset's bucket tables by source key, and what the stages said."""

    dataset: Dataset
    rows: Mapping[str, BucketRow]
    other_files: Mapping[str, int]
    num_read: int

    @property
    def kept(self) -> dict[str, BucketRow]:
        return {key: row for key, row in self.rows.items() if row.code is None}

    @property
    def captions(self) -> dict[str, str | None]:
        return {key: row.caption for key, row in self.kept.items()}

    @property
    def codes(self) -> dict[str, str]:
        return {key: row.code for key, row in self.rows.items() if row.code is not None}

    def size(self, key: str) -> tuple[int | None, int | None]:
        """Upright width and height."""
        return self.rows[key].original_width, self.rows[key].original_height

    def upright(self, key: str, background: str = "#ffffff") -> Image.Image:
        """The picture as it is cut and encoded, read from the place that the table names."""
        row = self.rows[key]
        location = Location(row.path, row.offset, row.length, row.row)
        data = self.dataset.source.read_image(location)
        limits = BucketRules.of(self.dataset.recipe).limits
        return load_upright(data, limits=limits, background=background)

    def pixel(self, key: str, background: str = "#ffffff") -> tuple[int, int, int]:
        """The pixel at the top left."""
        red, green, blue = np.asarray(self.upright(key, background))[0, 0].tolist()
        return red, green, blue

    def encoded(self, key: str) -> np.ndarray:
        """uint8 [height, width, 3]: what the VAE gets."""
        row = self.rows[key]
        sides: list[Any] = [row.crop_left, row.crop_top, row.crop_width, row.crop_height]
        width, height = row.width or 0, row.height or 0
        return fit(self.upright(key), crop=Crop(*sides), width=width, height=height)


def looked_through(folder: Path, name: str = "set", **sections: Any) -> LookedThrough:
    """The source of a recipe in `folder`: the folder `pictures` there and squares of 64 pixels,
    with `sections` over that. A source replaces it; what is None is left out; clips have no
    section `image`."""
    content: dict[str, dict[str, Any]] = {
        "source": {"type": "directory", "input_dir": "pictures"},
        "output": {"output_dir": f"out/{name}"},
        "image": {"image_size": 64},
    }
    if "video" in sections:
        del content["image"]
    for section, values in sections.items():
        content[section] = values if section == "source" else content.get(section, {}) | values
    recipe = folder / f"{name}.yaml"
    recipe.write_text(yaml.safe_dump(content))
    dataset = Dataset(load_recipe(recipe, base=folder), folder / "work")
    index = listed_index(dataset)
    write_index(dataset.layout.source_index, index)
    settings = bucket_fields(dataset.recipe)
    rules = BucketRules.of(dataset.recipe)
    download = DownloadSpec(dataset.layout, dataset.source).build()
    bucket = BucketSpec(dataset.layout, dataset.source, rules, settings).build()
    rows: dict[str, BucketRow] = {}
    num_read = num_listed = 0
    for part, paths in index.paths().items():
        stamps = download_task(part, paths, source=dataset.source, revision=index.revision)
        download.process(stamps, unheard)
        task = bucket_task(dataset.layout, part, settings=settings, limit=None)
        assert task is not None
        counts = bucket.process(task, unheard).counts
        assert counts.samples_in == counts.samples_out + sum(counts.rejects.values())
        num_read += counts.encoded
        num_listed += sum(map(dataset.source.num_samples, paths))
        rows |= {row.source_key: row for row in read_rows(dataset.layout.bucket(part))}
    # What the source counts without opening a picture, and what was made of it.
    assert num_listed == len({row.group for row in rows.values()})
    assert all(row.message for row in rows.values() if row.code is not None)
    tables = [dataset.layout.bucket(part) for part in index.paths()]
    others = other_member_counts(tables) + Counter(index.other_files)
    return LookedThrough(dataset, rows, others, num_read)


def put(folder: Path, files: Mapping[str, bytes | str | object]) -> None:
    """Files below `folder`: bytes as they are, text as UTF-8, anything else as JSON."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else ""
        if not isinstance(content, bytes | str):
            text = json.dumps(content)
        path.write_bytes(content if isinstance(content, bytes) else text.encode())
