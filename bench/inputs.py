"""What the benchmarks run on: a scratch project, tiny encoders, and pictures like photographs."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import numpy as np
import yaml
from PIL import Image

from diffprep_assets.dataset import Dataset
from diffprep_assets.dataset_graph import dataset_graph
from diffprep_assets.jobs import make_dataset
from diffprep_assets.project import load_project
from diffprep_assets.run_command import RunRequest, run_dataset
from diffprep_assets.run_report import RunReport
from diffprep_resources.demo.encoders import build_tiny_flux
from diffprep_resources.encoders.base import EncoderFamily, EncoderSettings
from diffprep_resources.encoders.families import family_for
from diffprep_resources.hub.models import ModelHub
from diffprep_resources.progress.silent import SilentProgress


class Bench:
    """A project in a scratch folder."""

    def __init__(self, folder: Path) -> None:
        os.environ["DAGSTER_HOME"] = str(folder / ".dagster")
        self.folder = folder
        self.pictures = folder / "pictures"
        (folder / "recipes").mkdir()
        (folder / "dagster_project.toml").write_text("")
        self.project = load_project(folder / "dagster_project.toml")
        build_tiny_flux(folder / "encoders")

    def recipe(self, name: str, **sections: Mapping[str, Any]) -> None:
        """A recipe over the pictures, with these settings over the usual ones."""
        content = {
            "source": {"type": "directory", "input_dir": str(self.pictures)},
            "output": {"output_dir": f"datasets/{name}"},
            "model": {"model_path": str(self.folder / "encoders")},
        }
        for section, values in sections.items():
            content.setdefault(section, {}).update(values)
        text = yaml.safe_dump(json.loads(json.dumps(content)))
        (self.folder / "recipes" / f"{name}.yaml").write_text(text)

    def run(self, name: str, **execution: object) -> RunReport:
        """A whole run, with these execution settings. Raises RuntimeError when it fails."""
        recipe = self.folder / "recipes" / f"{name}.yaml"
        request = RunRequest(self.project, recipe, {}, execution)
        report = run_dataset(request, SilentProgress(), say=print)
        if not report.ok:
            raise RuntimeError(f"{report.error}")
        return report

    def run_unrecorded(self, name: str) -> None:
        """As `run`, with a log in memory: for thousands of shards whose events matter to nobody."""
        request = RunRequest(self.project, self.folder / "recipes" / f"{name}.yaml", {}, {})
        dataset = Dataset(request.load(), self.project.storage_root)
        with dg.DagsterInstance.ephemeral() as instance:
            made = make_dataset(
                dataset_graph(dataset, self.project),
                instance=instance,
                resources={"engines": request.engines(), "progress": SilentProgress()},
            )
        if made.error is not None:
            raise RuntimeError(f"{made.error}")

    def forget(self, name: str) -> None:
        """Remove all that was made of a recipe."""
        shutil.rmtree(self.project.storage_root / name)
        shutil.rmtree(self.folder / "datasets" / name)

    def encoders(self, **settings: Any) -> EncoderFamily:
        chosen = EncoderSettings(model_path=str(self.folder / "encoders"), **settings)
        return family_for(chosen, hub=ModelHub())


def photographs(
    folder: Path, *, count: int, megapixels: tuple[float, float], seed: int = 0
) -> list[str]:
    """Captions of `count` JPEGs, smooth with some grain, as heavy to decode as photographs are."""
    random = np.random.default_rng(seed)
    (folder / "images").mkdir(parents=True)
    (folder / "captions").mkdir()
    captions = []
    for number in range(count):
        area = random.uniform(*megapixels) * 1e6
        aspect = random.uniform(0.6, 1.7)
        width, height = int((area * aspect) ** 0.5), int((area / aspect) ** 0.5)
        photograph(width, height, random).save(folder / f"images/{number:06d}.jpg", quality=90)
        caption = f"photograph {number}, " + " ".join(["grain and cloud"] * random.integers(1, 20))
        (folder / f"captions/{number:06d}.txt").write_text(caption)
        captions.append(caption)
    return captions


def photograph(width: int, height: int, random: np.random.Generator) -> Image.Image:
    """Clouds of three sizes and a little grain."""
    picture = np.zeros((height, width, 3), np.float32)
    for cells, weight in ((4, 90.0), (24, 45.0), (160, 20.0)):
        coarse = random.normal(0, 1, (cells, cells, 3)).astype(np.float32)
        for channel in range(3):
            layer = Image.fromarray(coarse[:, :, channel])
            picture[:, :, channel] += weight * np.asarray(
                layer.resize((width, height), Image.Resampling.BICUBIC)
            )
    picture += random.normal(0, 4, picture.shape).astype(np.float32)
    return Image.fromarray(np.clip(picture + 128, 0, 255).astype(np.uint8))
