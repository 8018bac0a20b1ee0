"""Clips as an Energon dataset: what its tars hold, and what a rerun takes over."""

import io
import json
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from megatron.energon import WorkerConfig, get_loader, get_val_dataset

from diffprep_assets.encoded_rows import row_path
from diffprep_assets.layout import Layout
from diffprep_assets.shard_plan.table import read_shards
from diffprep_resources.demo.clips import draw_clips
from diffprep_resources.demo.wan import build_tiny_wan
from diffprep_resources.encoders.latents_statistics import LatentsStatistics
from diffprep_resources.storage.row_file import row_reader
from diffprep_resources.trainers.energon import PreencodedVideoTaskEncoder

if TYPE_CHECKING:
    from tests.conftest import ProjectFolder

NUM_CLIPS = 4
CHANGED = 2
WORKERS = WorkerConfig(rank=0, world_size=1, num_workers=0)

pytestmark = pytest.mark.filterwarnings("ignore")


def recipe(project: "ProjectFolder", encoders: Path) -> None:
    project.write_recipe(
        source={"type": "directory", "input_dir": "clips"},
        output={"formats": ["energon_video"], "shard_size": 4},
        model={"model_path": str(encoders), "batch_size": 2, "t5_max_length": 40},
        image=None,
        video={
            "workload": "i2v",
            "max_width": None,
            "buckets": {"sizes": [[64, 32]], "frames": [5, 45]},
        },
    )


def encoded(layout: Layout) -> dict[str, dict[str, torch.Tensor]]:
    """By key what the encode stages made, as it should be stored."""
    rows: dict[str, dict[str, torch.Tensor]] = {}
    stages = ("encode_latents", "encode_text", "encode_first_frame", "encode_clip")
    for shard in read_shards(layout.shards):
        for stage in stages:
            with row_reader(row_path(layout, stage, shard.shard)) as reader:
                for number, sample_id in enumerate(reader.header.metadata["sample_ids"]):
                    rows.setdefault(f"{sample_id:010d}", {}).update(reader.row(number))
    return rows


def stored(output: Path) -> dict[str, dict[str, bytes]]:
    """By key the members of all tars."""
    samples: dict[str, dict[str, bytes]] = {}
    for path in output.rglob("*.tar"):
        with tarfile.open(path) as tar:
            for member in tar:
                file = tar.extractfile(member)
                assert file is not None
                key, _, name = member.name.partition(".")
                samples.setdefault(key, {})[name] = file.read()
    return samples


def tensor(data: bytes) -> torch.Tensor:
    return torch.load(io.BytesIO(data), weights_only=True)


def loaded(output: Path) -> list[dict[str, Any]]:
    dataset = get_val_dataset(
        output,
        split_part="train",
        worker_config=WORKERS,
        batch_size=2,
        task_encoder=PreencodedVideoTaskEncoder(),
    )
    return list(get_loader(dataset, watchdog_timeout_seconds=None))


def test_clips_reach_energon_as_they_were_encoded_and_a_caption_rewrites_its_text_alone(
    project: "ProjectFolder", tmp_path_factory: pytest.TempPathFactory
) -> None:
    encoders = tmp_path_factory.mktemp("wan")
    build_tiny_wan(encoders, workload="i2v")
    draw_clips(project.folder / "clips", count=NUM_CLIPS, seed=1)
    recipe(project, encoders)
    report = project.run()
    assert report.ok, report.error
    layout = project.layout()
    output, samples = layout.output_dir, stored(layout.output_dir)
    provenance = json.loads((output / "dataset.json").read_bytes())
    statistics = LatentsStatistics(
        tuple(provenance["latents"]["mean"]), tuple(provenance["latents"]["std"])
    )
    rows = encoded(layout)
    assert samples.keys() == rows.keys()
    for key, members in samples.items():
        row, told = rows[key], json.loads(members["json"])
        row["latents"] = torch.from_numpy(statistics.normalised(row["latents"].numpy()))
        for name in ("latents", "prompt_embeds", "first_frame_latents", "clip_feature"):
            assert torch.equal(tensor(members[f"{name}.pth"]), row[name].bfloat16()), name
        assert told["text_length"] == int(row["prompt_length"])
        assert told["num_frames"] in (5, 45)
        assert told["original_fps"] > 20
    # Both lengths are there, each in a folder of its own, and one pass reads all.
    assert {path.parent.name for path in output.rglob("*.tar")} == {"64x32x5", "64x32x45"}
    batches = loaded(output)
    assert sorted(key for batch in batches for key in batch["__key__"]) == sorted(samples)
    assert {len(batch["text_mask"][0]) for batch in batches} == {40}
    check_rerun(project, layout, samples)


def check_rerun(
    project: "ProjectFolder", layout: Layout, before: dict[str, dict[str, bytes]]
) -> None:
    table = project.folder / "clips" / "videos2caption.json"
    entries = json.loads(table.read_text())
    entries[CHANGED]["cap"] = ["something else"]
    table.write_text(json.dumps(entries))
    # What the tars hold is taken from there, so nobody reads these rows.
    for shard in read_shards(layout.shards):
        path = row_path(layout, "encode_latents", shard.shard)
        data = bytearray(path.read_bytes())
        data[-4096:] = bytes(4096)
        path.write_bytes(data)
    report = project.run()
    assert report.ok, report.error
    counts = report.summaries["shard_energon_video"].samples
    assert (counts.encoded, counts.reused) == (1, NUM_CLIPS - 1)
    after = stored(layout.output_dir)
    changed = {key for key in before if before[key] != after[key]}
    assert [json.loads(after[key]["json"])["source_key"] for key in changed] == [
        f"videos/{entries[CHANGED]['path']}"
    ]
    for key in changed:
        differing = {name for name in before[key] if before[key][name] != after[key][name]}
        assert differing == {"prompt_embeds.pth", "caption.txt", "json"}
        assert after[key]["caption.txt"] == b"something else"
