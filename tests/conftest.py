"""A project in a folder of the test's own, pictures to put in it, and tiny encoders for it."""

import gc
import io
import shutil
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import yaml
from PIL import Image

from diffprep_assets.dataset import Dataset
from diffprep_assets.layout import Layout
from diffprep_assets.project import Project, find_project
from diffprep_assets.recipe.load import load_recipe
from diffprep_assets.run_command import RunRequest, run_dataset
from diffprep_assets.run_report import RunReport
from diffprep_resources.demo.encoders import build_tiny_flux
from diffprep_resources.demo.pictures import draw_pictures
from diffprep_resources.progress.silent import SilentProgress

# Upright width and height; none is of a bucket's size, and none is square but the last.
SIZES = ((150, 100), (96, 130), (200, 120), (110, 110))


@pytest.fixture(scope="session", autouse=True)
def one_torch_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_encoders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A FLUX-like repository that no test changes."""
    folder = tmp_path_factory.mktemp("encoders") / "flux"
    build_tiny_flux(folder)
    return folder


@pytest.fixture(scope="session")
def other_encoders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same classes with other weights."""
    folder = tmp_path_factory.mktemp("encoders") / "other"
    build_tiny_flux(folder, seed=1)
    return folder


# -- pictures -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture's bytes, the caption it goes with, and its upright size."""

    name: str
    data: bytes
    caption: str
    width: int
    height: int

    @property
    def stem(self) -> str:
        return self.name.rsplit(".", 1)[0]


def draw(number: int, *, size: tuple[int, int] | None = None, version: int = 0) -> Drawing:
    """Picture `number`: smooth colours, another size each time. Of four, one lies on its side
    with EXIF orientation 6, one is a transparent PNG, one grey; `version` changes its bytes."""
    width, height = size or SIZES[number % len(SIZES)]
    rng = np.random.default_rng([number, version])
    small = rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)
    image = Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)
    buffer, suffix = io.BytesIO(), ".jpg"
    if number % 4 == 1:
        exif = Image.Exif()
        exif[0x0112] = 6
        stored = image.transpose(Image.Transpose.ROTATE_90)
        stored.save(buffer, "JPEG", quality=92, exif=exif)
    elif number % 4 == 2:
        suffix = ".png"
        alpha = Image.linear_gradient("L").resize(image.size)
        image.putalpha(alpha)
        image.save(buffer, "PNG")
    elif number % 4 == 3:
        image.convert("L").save(buffer, "JPEG", quality=92)
    else:
        image.save(buffer, "JPEG", quality=92)
    caption = f"picture {number} of size {width} by {height}, na\u00efve"
    return Drawing(f"p{number:03d}{suffix}", buffer.getvalue(), caption, width, height)


def write_pictures(
    folder: Path, numbers: Sequence[int], *, size: tuple[int, int] | None = None
) -> list[Drawing]:
    """`images/` and `captions/` in `folder`, holding the pictures of these numbers."""
    drawings = [draw(number, size=size) for number in numbers]
    for part in ("images", "captions"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    for drawing in drawings:
        (folder / "images" / drawing.name).write_bytes(drawing.data)
        (folder / "captions" / f"{drawing.stem}.txt").write_text(drawing.caption, "utf-8")
    return drawings


def write_parquet(path: Path, drawings: Sequence[Drawing]) -> None:
    """A data file of a Hub-like dataset: `image` structs and `text`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    images = [{"bytes": drawing.data, "path": drawing.name} for drawing in drawings]
    pq.write_table(pa.table({"image": images, "text": [d.caption for d in drawings]}), path)


def write_tar(path: Path, members: Mapping[str, bytes]) -> None:
    """A tar of these members, in this order."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


@pytest.fixture(scope="session")
def drawing() -> Callable[..., Drawing]:
    return draw


# -- a project ------------------------------------------------------------------------------


@dataclass
class ProjectFolder:
    """A project with its own DAGSTER_HOME. `run` runs a recipe of it in this process."""

    folder: Path
    encoders: Path

    @property
    def project(self) -> Project:
        return find_project(self.folder, self.folder)

    @property
    def pictures(self) -> Path:
        return self.folder / "pictures"

    def write_pictures(
        self, numbers: Sequence[int], *, size: tuple[int, int] | None = None
    ) -> list[Drawing]:
        return write_pictures(self.pictures, numbers, size=size)

    def write_recipe(self, name: str = "set", **sections: Any) -> Path:
        """`recipes/<name>.yaml`: a directory source, tiny encoders, squares of 64 pixels in
        float32, with `sections` over that. A source replaces it; what is None is left out."""
        content: dict[str, Any] = {
            "source": {"type": "directory", "input_dir": "pictures"},
            "output": {"output_dir": f"out/{name}", "shard_size": 4},
            "model": {
                "model_path": str(self.encoders),
                "precision": "fp32",
                "t5_max_length": 24,
                "batch_size": 4,
                "device": "cpu",
            },
            "image": {"image_size": 64},
        }
        for section, values in sections.items():
            if section == "source" or not isinstance(values, dict):
                content[section] = values
            else:
                content[section] = {**content.get(section, {}), **values}
        path = self.folder / "recipes" / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump({k: v for k, v in content.items() if v is not None}))
        return path

    def write_recipe_over(self, name: str = "set", **sections: Any) -> Path:
        """The recipe that is there, with `sections` over it; a key of None is removed."""
        path = self.folder / "recipes" / f"{name}.yaml"
        content = yaml.safe_load(path.read_text())
        for section, values in sections.items():
            merged = {**content.get(section, {}), **values}
            content[section] = {key: value for key, value in merged.items() if value is not None}
        path.write_text(yaml.safe_dump(content))
        return path

    def run(
        self, name: str = "set", changes: Mapping[str, object] | None = None, **execution: Any
    ) -> RunReport:
        """The report of `diffprep run NAME`, silent and in this process."""
        path = self.project.recipe_path(name)
        request = RunRequest(self.project, path, changes or {}, execution)
        return run_dataset(request, SilentProgress(), say=lambda _: None)

    def dataset(self, name: str = "set", changes: Mapping[str, object] | None = None) -> Dataset:
        path = self.project.recipe_path(name)
        loaded = load_recipe(path, base=self.folder, overrides=changes)
        return Dataset(loaded, self.project.storage_root)

    def layout(self, name: str = "set") -> Layout:
        return self.dataset(name).layout


@pytest.fixture(scope="session")
def new_dagster_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home that Dagster has used once, since making its tables takes half a second."""
    home = tmp_path_factory.mktemp("home") / ".dagster"
    home.mkdir()
    settings = files("diffprep_assets") / "project_template" / "dagster.yaml"
    (home / "dagster.yaml").write_bytes(settings.read_bytes())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAGSTER_HOME", str(home))
        with dg.DagsterInstance.get() as instance:
            instance.get_dynamic_partitions("none")
    return home


def project_in(
    folder: Path, *, home: Path, encoders: Path, patch: pytest.MonkeyPatch
) -> ProjectFolder:
    """An empty project, whose variables are set as its `.env` would."""
    (folder / "dagster_project.toml").write_text('storage_root = "work"\n')
    shutil.copytree(home, folder / ".dagster")
    patch.setenv("DAGSTER_HOME", str(folder / ".dagster"))
    patch.setenv("DAGSTER_EMIT_PARTITION_SUBSET_IN_PLANNED_EVENTS", "1")
    patch.delenv("DIFFPREP_PROJECT", raising=False)
    # Energon collects garbage twice a pass: 0.25 s over all that the tests' imports left.
    patch.setattr(gc, "collect", lambda *_: 0)
    return ProjectFolder(folder, encoders)


@pytest.fixture(scope="session")
def empty_project_in(tiny_encoders: Path, new_dagster_home: Path) -> Callable[..., ProjectFolder]:
    """Makes an empty project in a folder, for fixtures that outlive one test; give it `patch`."""
    return partial(project_in, home=new_dagster_home, encoders=tiny_encoders)


@pytest.fixture
def project(
    tmp_path: Path,
    tiny_encoders: Path,
    new_dagster_home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> ProjectFolder:
    """An empty project in `tmp_path`, whose variables are set as its `.env` would."""
    return project_in(tmp_path, home=new_dagster_home, encoders=tiny_encoders, patch=monkeypatch)


@pytest.fixture(scope="session")
def drawn_dataset(
    tmp_path_factory: pytest.TempPathFactory, tiny_encoders: Path, new_dagster_home: Path
) -> ProjectFolder:
    """Eight of the demo's pictures as the dataset `set`, in several buckets; no test changes it."""
    folder = tmp_path_factory.mktemp("drawn")
    with pytest.MonkeyPatch.context() as patch:
        drawn = project_in(folder, home=new_dagster_home, encoders=tiny_encoders, patch=patch)
        draw_pictures(drawn.pictures, count=8, seed=5)
        drawn.write_recipe(
            image={"image_size": None, "variable_size": True, "max_size": 128},
            model={"precision": "bf16"},
            output={"shard_size": 2, "license": "cc-by-4.0"},
        )
        assert drawn.run().ok
    return drawn
