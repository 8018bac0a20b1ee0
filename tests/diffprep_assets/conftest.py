"""Finished shards of small random tensors, made as the shard stage makes them."""

import gc
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xxhash
from megatron.energon import WorkerConfig, get_loader, get_val_dataset
from PIL import Image

from diffprep_assets.energon_prepare.metadata_files import EmptyEncodings
from diffprep_assets.energon_prepare.names import Split
from diffprep_assets.energon_prepare.provenance import DatasetDescription
from diffprep_assets.energon_prepare.publish import FinishedShard, Publication
from diffprep_assets.fastvideo_prepare.publish import FastVideoFacts, publish_fastvideo
from diffprep_assets.layout import Layout
from diffprep_assets.mds_prepare.publish import MdsFacts, publish_mds
from diffprep_assets.shard.commit import new_shard
from diffprep_assets.shard.members import SampleMetadata, sample_members
from diffprep_assets.shard.record import SampleRow, ShardRecord, write_record, write_samples
from diffprep_assets.shard.tar_writer import TarRow, TarSample, TarWriter
from diffprep_assets.shard_fastvideo.chunks import write_chunks
from diffprep_assets.shard_fastvideo.files import files_bytes, remove_unlisted
from diffprep_assets.shard_mds.columns import MdsColumns, sample_values
from diffprep_resources.encoders.base import Workload
from diffprep_resources.fastvideo.rows import FastVideoRow
from diffprep_resources.fastvideo.schema import tensor_names
from diffprep_resources.mds.layout import ShardConfig
from diffprep_resources.mds.writer import ShardWriter
from diffprep_resources.trainers.energon import PreencodedTaskEncoder

TOKENS, WIDTH_T5, WIDTH_CLIP, CHANNELS = 6, 8, 4, 16
TEXT_LENGTH = 12


def random_tensors(
    sample_id: int, *, width: int, height: int, version: str, resample: bool = False
) -> dict[str, torch.Tensor]:
    seed = xxhash.xxh3_64_intdigest(f"{sample_id} {version}".encode()) % 2**31
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(torch.bfloat16)

    latents = (CHANNELS, height // 8, width // 8)
    tensors = {
        "latents": draw(*latents),
        "prompt_embeds": draw(TOKENS, WIDTH_T5),
        "pooled_prompt_embeds": draw(WIDTH_CLIP),
    }
    if resample:
        tensors |= {"mean": draw(*latents), "logvar": draw(*latents)}
    return tensors


def sample_metadata(sample_id: int, *, width: int, height: int, version: str) -> SampleMetadata:
    return SampleMetadata(
        source_key=f"images/{sample_id}.jpg",
        original_width=width * 2,
        original_height=height * 2,
        width=width,
        height=height,
        crop_left=0,
        crop_top=0,
        crop_width=width * 2,
        crop_height=height * 2,
        image_digest=xxhash.xxh3_128_hexdigest(f"image {sample_id}".encode()),
        caption_digest=xxhash.xxh3_128_hexdigest(f"caption {sample_id} {version}".encode()),
    )


def caption_of(sample_id: int, version: str) -> str:
    return f"picture {sample_id} of {version} \u00e9"


class ShardFactory:
    """Writes finished shards into a layout, as the shard stage does."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def __call__(
        self,
        number: int,
        ids: Sequence[int],
        *,
        split: Split = "train",
        size: tuple[int, int] = (64, 32),
        version: str = "v1",
        resample: bool = False,
    ) -> FinishedShard:
        width, height = size
        shard = f"g1-64-{width}x{height}-{number:06d}"
        path = self.layout.shard_file(shard)
        path.parent.mkdir(parents=True, exist_ok=True)
        rows: list[SampleRow] = []
        temporary = path.with_suffix(".new")
        with temporary.open("wb") as file:
            writer = TarWriter(file)
            for sample_id in ids:
                tensors = random_tensors(
                    sample_id, width=width, height=height, version=version, resample=resample
                )
                members = sample_members(
                    tensors,
                    caption=caption_of(sample_id, version),
                    metadata=sample_metadata(
                        sample_id, width=width, height=height, version=version
                    ),
                )
                row = writer.add(TarSample(f"{sample_id:010d}", members))
                rows.append(
                    SampleRow(
                        sample_id, row.key, row.offset, row.size, row.digest, "l", "t", row.parts
                    )
                )
            summary = writer.close()
        temporary.replace(path)
        write_samples(self.layout.shard_samples(shard), rows)
        record = ShardRecord(
            shard=shard,
            fingerprint=xxhash.xxh3_128_hexdigest(f"{shard} {version}".encode()),
            tier=64,
            width=width,
            height=height,
            number=number,
            num_samples=len(rows),
            size_bytes=summary.size_bytes,
            end_offset=summary.end_offset,
            digest=summary.digest,
            inputs={"encode_latents": f"l{version}", "encode_text": f"t{version}"},
        )
        write_record(self.layout.shard_record(shard), record)
        return FinishedShard(split, record)


class MdsShardFactory:
    """Writes finished MDS shards of small pictures into a layout, as the shard_mds stage does."""

    columns = MdsColumns(
        "png", captions=("long",), latents=False, text_latents=False, dtype="float32"
    )

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def __call__(
        self,
        number: int,
        ids: Sequence[int],
        *,
        split: Split = "train",
        size: tuple[int, int] = (64, 32),
        version: str = "v1",
        skipped: Mapping[int, str] | None = None,
    ) -> FinishedShard:
        width, height = size
        shard = f"g1-64-{width}x{height}-{number:06d}"
        path = self.layout.shard_file(shard)
        path.parent.mkdir(parents=True, exist_ok=True)
        rows, temporary = [], path.with_suffix(".new")
        with temporary.open("w+b") as file:
            config = ShardConfig.of(self.columns.encodings)
            writer = ShardWriter(file, config=config, max_samples=len(ids))
            written = [writer.add(self._values(sample_id, size, version)) for sample_id in ids]
            summary = writer.close()
        for sample_id, row, offset in zip(ids, written, summary.offsets, strict=False):
            key = f"{sample_id:010d}"
            rows.append(SampleRow(sample_id, key, offset, row.size, row.digest, "l", "t", ()))
        temporary.replace(path)
        write_samples(self.layout.shard_samples(shard), rows)
        record = ShardRecord(
            shard=shard,
            fingerprint=xxhash.xxh3_128_hexdigest(f"{shard} {version}".encode()),
            tier=64,
            width=width,
            height=height,
            number=number,
            num_samples=len(rows),
            size_bytes=summary.size_bytes,
            end_offset=summary.size_bytes,
            digest=summary.digest,
        )
        write_record(self.layout.shard_record(shard), record)
        return FinishedShard(split, record, dict(skipped or {}))

    def _values(self, sample_id: int, size: tuple[int, int], version: str) -> dict[str, Any]:
        buffer = io.BytesIO()
        Image.new("RGB", size, (sample_id % 256, 0, 0)).save(buffer, "PNG")
        return sample_values(
            key=f"{sample_id:010d}",
            source_key=f"images/{sample_id}.jpg",
            picture=buffer.getvalue(),
            sizes=(*size, 2 * size[0], 2 * size[1]),
            captions={"caption": caption_of(sample_id, version), "long": "x" * sample_id},
        )


@pytest.fixture
def mds_layout(tmp_path: Path) -> Layout:
    return Layout(
        root=tmp_path / "storage", dataset="demo", output_dir=tmp_path / "out", format="mds"
    )


@pytest.fixture
def make_mds_shard(mds_layout: Layout) -> MdsShardFactory:
    return MdsShardFactory(mds_layout)


@pytest.fixture
def publish_shards(
    mds_layout: Layout, description: DatasetDescription
) -> Callable[..., Publication]:
    """Publishes finished MDS shards; `listed` follows from them."""

    def publish(*shards: FinishedShard, finalize: bool = True) -> Publication:
        listed = sum(shard.record.num_samples for shard in shards)
        described = replace(description, encoding="mds", listed=listed, latents_scale=None)
        facts = MdsFacts(MdsShardFactory.columns.encodings, "png", {"caption": 1.0, "long": 2.0})
        return publish_mds(
            mds_layout, shards=shards, description=described, facts=facts, finalize=finalize
        )

    return publish


class FastVideoShardFactory:
    """Writes finished FastVideo shards of drawn tensors into a layout, as the stage does."""

    workload: Workload = "i2v"
    samples_per_file = 8
    size = (32, 16)
    num_frames = 5

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def __call__(
        self,
        number: int,
        ids: Sequence[int],
        *,
        split: Split = "train",
        size: tuple[int, int] = size,
        version: str = "v1",
        skipped: Mapping[int, str] | None = None,
    ) -> FinishedShard:
        width, height = size
        shard = f"g1-{height}-{width}x{height}x{self.num_frames}-{number:06d}"
        with new_shard(self.layout, shard) as commit:
            written = write_chunks(
                self.layout.shard_folder(shard),
                list(ids),
                lambda sample_id: self.row(sample_id, size=size, version=version),
                workload=self.workload,
                samples_per_file=self.samples_per_file,
            )
            commit.tar.write(files_bytes(written.files))
            rows = [self._sample_row(sample_id, row, version) for sample_id, row in written.rows]
            record = ShardRecord(
                shard=shard,
                fingerprint=xxhash.xxh3_128_hexdigest(f"{shard} {version}".encode()),
                tier=height,
                width=width,
                height=height,
                frames=self.num_frames,
                number=number,
                num_samples=len(rows),
                size_bytes=sum(file.size_bytes for file in written.files),
                end_offset=0,
                digest=xxhash.xxh3_128_hexdigest(files_bytes(written.files)),
                settings={
                    "encode_text": {"model.t5_max_length": TEXT_LENGTH},
                    "shard": {"video.workload": self.workload},
                },
            )
            commit.describe(record, rows)
        remove_unlisted(self.layout, shard)
        return FinishedShard(split, record, dict(skipped or {}))

    def row(self, sample_id: int, *, size: tuple[int, int] = size, version: str) -> FastVideoRow:
        """The row that the factory writes for the sample."""
        seed = xxhash.xxh3_64_intdigest(f"{sample_id} {version}".encode())
        rng = np.random.default_rng(seed)
        width, height = size
        latents = (4, 2, height // 8, width // 8)
        shapes = {
            "vae_latent": latents,
            "text_embedding": (3 + sample_id % 3, WIDTH_T5),
            "clip_feature": (5, WIDTH_CLIP),
            "first_frame_latent": latents,
        }
        tensors = {
            name: rng.standard_normal(shapes[name], dtype=np.float32)
            for name in tensor_names(self.workload)
            if name in shapes
        }
        picture = rng.integers(0, 256, (3, height, width)).astype(np.float32)
        return FastVideoRow(
            id=f"{sample_id:010d}",
            file_name=f"{sample_id}.mp4",
            caption=caption_of(sample_id, version),
            width=width,
            height=height,
            num_frames=self.num_frames,
            fps=16.0,
            tensors=tensors | ({"pil_image": picture} if self.workload == "i2v" else {}),
        )

    def _sample_row(self, sample_id: int, row: TarRow, version: str) -> SampleRow:
        prints = [f"{name} {sample_id} {version}" for name in ("l", "t", "f", "c")]
        return SampleRow(
            sample_id,
            row.key,
            row.offset,
            row.size,
            row.digest,
            prints[0],
            prints[1],
            row.parts,
            first_frame_fingerprint=prints[2],
            clip_fingerprint=prints[3],
        )


@pytest.fixture
def fastvideo_layout(tmp_path: Path) -> Layout:
    return Layout(
        root=tmp_path / "storage", dataset="demo", output_dir=tmp_path / "out", format="fastvideo"
    )


@pytest.fixture
def make_fastvideo_shard(fastvideo_layout: Layout) -> FastVideoShardFactory:
    return FastVideoShardFactory(fastvideo_layout)


@pytest.fixture
def publish_clips(
    fastvideo_layout: Layout, description: DatasetDescription
) -> Callable[..., Publication]:
    """Publishes finished FastVideo shards; `listed` follows from them."""

    def publish(*shards: FinishedShard, finalize: bool = True, nested: bool = False) -> Publication:
        listed = sum(shard.record.num_samples for shard in shards)
        described = replace(description, encoding="fastvideo", listed=listed, latents_scale=None)
        return publish_fastvideo(
            fastvideo_layout,
            shards=shards,
            description=described,
            facts=FastVideoFacts(FastVideoShardFactory.workload, 16.0, 8, nested),
            finalize=finalize,
        )

    return publish


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(root=tmp_path / "storage", dataset="demo", output_dir=tmp_path / "out")


@pytest.fixture
def make_shard(layout: Layout) -> ShardFactory:
    return ShardFactory(layout)


@pytest.fixture
def description() -> DatasetDescription:
    return DatasetDescription(
        latents_scale=(0.3611, 0.1159),
        dataset="demo",
        recipe={"image": {"image_size": 64}},
        recipe_hash="0" * 32,
        models={
            "vae": {
                "role": "vae",
                "weights": {
                    "kind": "local",
                    "reference": "tiny",
                    "revision": "abc",
                    "subfolder": "vae",
                },
                "tokenizer": None,
                "fingerprint": "def",
            }
        },
        source_revision=None,
        listed=0,
        rejects={},
    )


@pytest.fixture
def empty() -> EmptyEncodings:
    generator = np.random.default_rng(0)
    return EmptyEncodings(
        t5=generator.standard_normal((1, TOKENS, WIDTH_T5), dtype=np.float32),
        clip=generator.standard_normal((1, WIDTH_CLIP), dtype=np.float32),
    )


@pytest.fixture
def draw_tensors() -> Callable[..., dict[str, torch.Tensor]]:
    return random_tensors


@pytest.fixture
def read_split(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[dict]]:
    """Reads a split once, in order, with energon's own loader and our task encoder.

    Energon collects garbage twice a pass: 0.25 s over all that the tests' imports left.
    """
    monkeypatch.setattr(gc, "collect", lambda *_: 0)

    def read(folder: Path, split: str = "train", *, batch_size: int = 4) -> list[dict]:
        workers = WorkerConfig(rank=0, world_size=1, num_workers=0)
        dataset = get_val_dataset(
            folder,
            split_part=split,
            worker_config=workers,
            batch_size=batch_size,
            task_encoder=PreencodedTaskEncoder(),
        )
        return list(get_loader(dataset, watchdog_timeout_seconds=None))

    return read
