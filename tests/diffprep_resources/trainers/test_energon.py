"""Over datasets that energon itself indexed: nothing of ours runs but the task encoder."""

import io
import itertools
import json
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from megatron.energon import (
    DefaultTaskEncoder,
    WorkerConfig,
    get_loader,
    get_train_dataset,
    get_val_dataset,
)
from megatron.energon.flavors.webdataset.base_webdataset import BaseWebdatasetFactory
from PIL import Image

from diffprep_resources.trainers.energon import (
    PreencodedTaskEncoder,
    PreencodedVideoTaskEncoder,
    RawTaskEncoder,
    cook_preencoded_video,
    resample_latents,
)

WORKERS = WorkerConfig(rank=0, world_size=1, num_workers=0)
SHAPES = ((16, 4, 8), (16, 8, 4), (16, 6, 6))

pytestmark = pytest.mark.filterwarnings("ignore")


def saved(tensor: torch.Tensor) -> bytes:
    buffer = io.BytesIO()
    torch.save(tensor, buffer)
    return buffer.getvalue()


def sample(number: int, *, resample: bool) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(number)
    shape = SHAPES[number % len(SHAPES)]
    tensors = {
        "latents": torch.randn(shape, generator=generator).to(torch.bfloat16),
        "prompt_embeds": torch.randn((5, 8), generator=generator).half(),
        "pooled_prompt_embeds": torch.randn((4,), generator=generator),
    }
    if resample:
        tensors["mean"] = torch.randn(shape, generator=generator)
        tensors["logvar"] = torch.randn(shape, generator=generator)
    return tensors


def make_dataset(folder: Path, numbers: Iterable[int], *, resample: bool = False) -> Path:
    samples = {}
    for number in numbers:
        tensors = sample(number, resample=resample)
        members = {f"{name}.pth": saved(tensor) for name, tensor in tensors.items()}
        members["caption.txt"] = f"caption {number} \u00e9".encode()
        members["json"] = json.dumps({"source_key": f"{number}.jpg"}).encode()
        samples[number] = members
    return write_dataset(folder, samples, encoding="preencoded")


def picture(number: int) -> np.ndarray:
    """uint8 [H, W, 3]; three sizes take turns."""
    rng = np.random.default_rng(number)
    return rng.integers(0, 256, (*((16, 32), (32, 16), (24, 24))[number % 3], 3), dtype=np.uint8)


def make_raw_dataset(folder: Path, numbers: Iterable[int], *, kind: str) -> Path:
    samples = {}
    for number in numbers:
        file = io.BytesIO()
        options = {"lossless": True} if kind == "webp" else {}
        Image.fromarray(picture(number)).save(file, {"jpg": "JPEG"}.get(kind, kind), **options)
        samples[number] = {
            kind: file.getvalue(),
            "txt": f"caption {number} \u00e9".encode(),
            "json": json.dumps({"source_key": f"{number}.png"}).encode(),
        }
    return write_dataset(folder, samples, encoding="raw")


CLIP_SHAPES = ((16, 5, 4, 6), (16, 2, 4, 6))


def clip(number: int, *, i2v: bool) -> dict[str, torch.Tensor]:
    """Two lengths take turns; the text has as many tokens as the number says."""
    generator = torch.Generator().manual_seed(number)
    shape = CLIP_SHAPES[number % 2]
    text = torch.zeros(7, 8)
    text[: number + 1] = torch.randn((number + 1, 8), generator=generator)
    tensors = {"latents": torch.randn(shape, generator=generator), "prompt_embeds": text}
    if i2v:
        tensors["first_frame_latents"] = torch.randn(shape, generator=generator)
        tensors["clip_feature"] = torch.randn((3, 4), generator=generator)
    return {name: tensor.bfloat16() for name, tensor in tensors.items()}


def make_clips(folder: Path, numbers: Iterable[int], *, i2v: bool) -> Path:
    samples = {}
    for number in numbers:
        tensors = clip(number, i2v=i2v)
        members = {f"{name}.pth": saved(tensor) for name, tensor in tensors.items()}
        members["caption.txt"] = f"clip {number}".encode()
        members["json"] = json.dumps({"text_length": number + 1}).encode()
        samples[number] = members
    return write_dataset(folder, samples, encoding="preencoded_video")


def write_dataset(
    folder: Path, samples: Mapping[int, Mapping[str, bytes]], *, encoding: str
) -> Path:
    folder.mkdir()
    with tarfile.open(folder / "000000.tar", "w:", format=tarfile.USTAR_FORMAT) as tar:
        for number, members in samples.items():
            for name, data in members.items():
                info = tarfile.TarInfo(f"{number:010d}.{name}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    BaseWebdatasetFactory.prepare_dataset(
        folder,
        ["000000.tar"],
        split_parts_patterns=[("train", ".*"), ("val", ".*")],
        workers=1,
    )
    (folder / ".nv-meta/dataset.yaml").write_text(
        "__module__: megatron.energon\n__class__: CrudeWebdataset\n"
        f"subflavors:\n  encoding: {encoding}\n"
    )
    return folder


def one_pass(
    folder: Path, *, batch_size: int, encoder: type[DefaultTaskEncoder] = PreencodedTaskEncoder
) -> list[dict]:
    dataset = get_val_dataset(
        folder,
        worker_config=WORKERS,
        batch_size=batch_size,
        task_encoder=encoder(),
    )
    return list(get_loader(dataset, watchdog_timeout_seconds=None))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_dataset(tmp_path_factory.mktemp("data") / "buckets", range(11))


def test_a_full_pass_yields_every_sample_once_in_batches_of_one_shape(folder: Path) -> None:
    batches = one_pass(folder, batch_size=3)
    keys = [key for batch in batches for key in batch["__key__"]]
    assert sorted(keys) == [f"{number:010d}" for number in range(11)]
    for batch in batches:
        shapes = {SHAPES[int(key) % 3] for key in batch["__key__"]}
        assert shapes == {tuple(batch["latents"].shape[1:])}
        assert len(batch["__key__"]) <= 3


def test_every_field_comes_back_in_its_stored_dtype(folder: Path) -> None:
    for batch in one_pass(folder, batch_size=4):
        for place, key in enumerate(batch["__key__"]):
            for name, tensor in sample(int(key), resample=False).items():
                assert batch[name].dtype == tensor.dtype
                assert torch.equal(batch[name][place], tensor)
            assert batch["captions"][place] == f"caption {int(key)} \u00e9"
            assert batch["metadata"][place] == {"source_key": f"{int(key)}.jpg"}
        assert "mean" not in batch


def test_training_shuffles_and_repeats_with_uniform_batches(folder: Path) -> None:
    dataset = get_train_dataset(
        folder,
        worker_config=WORKERS,
        batch_size=2,
        shuffle_buffer_size=8,
        max_samples_per_sequence=None,
        task_encoder=PreencodedTaskEncoder(),
    )
    batches = list(itertools.islice(get_loader(dataset, watchdog_timeout_seconds=None), 40))
    assert {tuple(batch["latents"].shape) for batch in batches} == {(2, *s) for s in SHAPES}
    assert {key for batch in batches for key in batch["__key__"]} == {
        f"{number:010d}" for number in range(11)
    }


def test_worker_processes_yield_the_same_samples(folder: Path) -> None:
    dataset = get_val_dataset(
        folder,
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=2),
        batch_size=3,
        task_encoder=PreencodedTaskEncoder(),
    )
    batches = list(get_loader(dataset, watchdog_timeout_seconds=None))
    assert sorted(key for batch in batches for key in batch["__key__"]) == [
        f"{number:010d}" for number in range(11)
    ]


def test_resample_batches_carry_the_posterior_and_draw_scaled_latents(tmp_path: Path) -> None:
    batches = one_pass(make_dataset(tmp_path / "r", range(4), resample=True), batch_size=2)
    assert sum(len(batch["__key__"]) for batch in batches) == 4
    batch = batches[0]
    drawn = resample_latents(
        batch, scaling_factor=0.5, shift_factor=0.1, generator=torch.Generator().manual_seed(3)
    )
    noise = torch.randn(batch["mean"].shape, generator=torch.Generator().manual_seed(3))
    expected = (batch["mean"] + (batch["logvar"] / 2).exp() * noise - 0.1) * 0.5
    assert torch.allclose(drawn, expected, atol=1e-6)
    assert drawn.dtype == batch["mean"].dtype


def test_a_sample_without_a_required_member_raises_with_its_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole: Callable[..., dict[str, torch.Tensor]] = sample

    def without(number: int, *, resample: bool) -> dict[str, torch.Tensor]:
        tensors = whole(number, resample=resample)
        return {name: t for name, t in tensors.items() if number != 1 or name != "latents"}

    monkeypatch.setitem(globals(), "sample", without)
    folder = make_dataset(tmp_path / "m", range(3))
    keys = [key for batch in one_pass(folder, batch_size=3) for key in batch["__key__"]]
    assert keys == ["0000000000", "0000000002"]
    assert "sample 0000000001: no member latents.pth" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["jpg", "png", "webp"])
def test_a_raw_pass_yields_every_picture_once_in_batches_of_one_size(
    tmp_path: Path, kind: str
) -> None:
    folder = make_raw_dataset(tmp_path / "raw", range(8), kind=kind)
    batches = one_pass(folder, batch_size=3, encoder=RawTaskEncoder)
    keys = [key for batch in batches for key in batch["__key__"]]
    assert sorted(keys) == [f"{number:010d}" for number in range(8)]
    for batch in batches:
        assert batch["images"].dtype == torch.uint8
        assert len(batch["__key__"]) <= 3
        for place, key in enumerate(batch["__key__"]):
            wanted = torch.from_numpy(picture(int(key))).permute(2, 0, 1)
            assert batch["images"][place].shape == wanted.shape
            if kind != "jpg":
                assert torch.equal(batch["images"][place], wanted)
            assert batch["captions"][place] == f"caption {int(key)} \u00e9"
            assert batch["metadata"][place] == {"source_key": f"{int(key)}.png"}


def test_a_raw_sample_without_a_picture_raises_with_its_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = make_raw_dataset(tmp_path / "raw", range(2), kind="bmp")
    assert one_pass(folder, batch_size=2, encoder=RawTaskEncoder) == []
    assert "sample 0000000000: no member jpg, png, webp" in capsys.readouterr().err


def test_importing_it_needs_neither_dagster_nor_diffusers() -> None:
    code = (
        "import sys, diffprep_resources.trainers.energon; "
        "print([m for m in ('dagster', 'diffusers', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("i2v", [False, True])
def test_clips_come_in_batches_of_one_length_with_masks_of_their_tokens(
    tmp_path: Path, i2v: bool
) -> None:
    folder = make_clips(tmp_path / "clips", range(6), i2v=i2v)
    batches = one_pass(folder, batch_size=2, encoder=PreencodedVideoTaskEncoder)
    assert sorted(key for batch in batches for key in batch["__key__"]) == [
        f"{number:010d}" for number in range(6)
    ]
    for batch in batches:
        numbers = [int(key) for key in batch["__key__"]]
        assert len({number % 2 for number in numbers}) == 1
        for place, number in enumerate(numbers):
            for name, tensor in clip(number, i2v=i2v).items():
                assert torch.equal(batch[name][place], tensor)
            wanted = [True] * (number + 1) + [False] * (6 - number)
            assert batch["text_mask"][place].tolist() == wanted
        assert batch["captions"] == [f"clip {number}" for number in numbers]
        assert ("first_frame_latents" in batch, "clip_feature" in batch) == (i2v, i2v)


def test_a_clip_that_does_not_say_its_tokens_raises(tmp_path: Path) -> None:
    tensors = {f"{name}.pth": saved(t) for name, t in clip(0, i2v=False).items()}
    whole = {"__key__": "0", "__restore_key__": (), **tensors, "json": b'{"text_length": 1}'}
    assert cook_preencoded_video(whole).text_length == 1
    with pytest.raises(ValueError, match="has no text_length"):
        cook_preencoded_video({**whole, "json": b"{}"})
    del whole["prompt_embeds.pth"]
    with pytest.raises(ValueError, match=r"no member prompt_embeds.pth"):
        cook_preencoded_video(whole)
