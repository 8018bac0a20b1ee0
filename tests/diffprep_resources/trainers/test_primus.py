"""The mixin over a task encoder that, as Primus's does, stacks whatever a batch holds."""

import io
import tarfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from megatron.energon import (
    Cooker,
    DefaultTaskEncoder,
    Sample,
    WorkerConfig,
    basic_sample_keys,
    get_loader,
    get_val_dataset,
    stateless,
)
from megatron.energon.flavors.webdataset.base_webdataset import BaseWebdatasetFactory

from diffprep_resources.trainers.primus import GroupedByShape
from diffprep_resources.trainers.tensors import tensor_from_bytes

SHAPES = ((16, 4, 8), (16, 8, 4), (16, 6, 6))
NUM_SAMPLES = 31

pytestmark = pytest.mark.filterwarnings("ignore")


@dataclass
class Encoded(Sample):
    """`latents` is None where a dataset has only the posterior."""

    prompt_embeds: torch.Tensor
    latents: torch.Tensor | None = None
    mean: torch.Tensor | None = None


@stateless
def cook(sample: dict) -> Encoded:
    found: dict[str, Any] = {
        name: tensor_from_bytes(sample[f"{name}.pth"], name=name)
        for name in ("prompt_embeds", "latents", "mean")
        if f"{name}.pth" in sample
    }
    return Encoded(**basic_sample_keys(sample), **found)


class Stacking(DefaultTaskEncoder[Encoded, Encoded, dict, dict]):
    decoder = None
    cookers = (Cooker(cook, has_subflavors={"encoding": "preencoded"}),)

    def batch(self, samples: list[Encoded]) -> dict:
        names = [
            "prompt_embeds",
            *(n for n in ("latents", "mean") if getattr(samples[0], n) is not None),
        ]
        return {name: torch.stack([getattr(sample, name) for sample in samples]) for name in names}


class Grouped(GroupedByShape, Stacking):
    pass


def make_dataset(folder: Path, name: str) -> Path:
    """Samples of three shapes in turn, their picture in the member `name`."""
    folder.mkdir()
    with tarfile.open(folder / "000000.tar", "w:", format=tarfile.USTAR_FORMAT) as tar:
        for number in range(NUM_SAMPLES):
            picture = torch.full(SHAPES[number % 3], float(number))
            for part, tensor in ((name, picture), ("prompt_embeds", torch.zeros(5, 8))):
                buffer = io.BytesIO()
                torch.save(tensor, buffer)
                info = tarfile.TarInfo(f"{number:010d}.{part}.pth")
                info.size = buffer.tell()
                tar.addfile(info, io.BytesIO(buffer.getvalue()))
    BaseWebdatasetFactory.prepare_dataset(
        folder, ["000000.tar"], split_parts_patterns=[("val", ".*")], workers=1
    )
    (folder / ".nv-meta/dataset.yaml").write_text(
        "__module__: megatron.energon\n__class__: CrudeWebdataset\n"
        "subflavors:\n  encoding: preencoded\n"
    )
    return folder


def one_pass(folder: Path, encoder: Stacking) -> list[dict]:
    workers = WorkerConfig(rank=0, world_size=1, num_workers=0)
    dataset = get_val_dataset(folder, worker_config=workers, batch_size=4, task_encoder=encoder)
    return list(get_loader(dataset, watchdog_timeout_seconds=None))


@pytest.mark.parametrize("name", ["latents", "mean"])
def test_with_the_mixin_a_full_pass_yields_every_sample_of_every_shape_once(
    tmp_path: Path, name: str
) -> None:
    batches = one_pass(make_dataset(tmp_path / "d", name), Grouped())
    seen = Counter(int(picture.flatten()[0]) for batch in batches for picture in batch[name])
    assert seen == dict.fromkeys(range(NUM_SAMPLES), 1)
    assert {tuple(batch[name].shape[1:]) for batch in batches} == set(SHAPES)


def test_without_it_mixed_batches_are_lost_in_silence(tmp_path: Path) -> None:
    assert one_pass(make_dataset(tmp_path / "d", "latents"), Stacking()) == []
