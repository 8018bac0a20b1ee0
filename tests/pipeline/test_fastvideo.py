"""Clips as FastVideo's files: what they hold, and what a rerun redoes."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from diffprep_assets.encoded_rows import row_path
from diffprep_assets.layout import Layout
from diffprep_assets.recipe.formats import ENCODE_STAGES
from diffprep_assets.removable import removable
from diffprep_assets.shard_fastvideo.stored import STORED_NAMES
from diffprep_assets.shard_plan.table import read_shards
from diffprep_assets.validate.clips_decode import decode_clips
from diffprep_resources.demo.clips import draw_clips
from diffprep_resources.demo.wan import build_tiny_wan
from diffprep_resources.fastvideo.reading import read_rows
from diffprep_resources.fastvideo.rows import FastVideoRow
from diffprep_resources.storage.row_file import row_reader

if TYPE_CHECKING:
    from tests.conftest import ProjectFolder

NUM_CLIPS = 10

pytestmark = pytest.mark.filterwarnings("ignore")


def recipe(project: "ProjectFolder", encoders: Path, *, intermediates: str) -> None:
    project.write_recipe(
        source={"type": "directory", "input_dir": "clips"},
        output={"train_split": 1.0, "shard_size": 16, "intermediates": intermediates},
        model={"model_path": str(encoders), "batch_size": 1, "t5_max_length": 40},
        image=None,
        video={
            "workload": "i2v",
            "max_width": 64,
            "max_height": 32,
            "num_frames": 5,
            "video_length_tolerance_range": 100,
            "clips_jsonl": True,
        },
    )


def published(output: Path) -> dict[str, list[FastVideoRow]]:
    """By file the rows of the training tree."""
    tree = output / "training_dataset"
    return {
        path.relative_to(tree).as_posix(): list(read_rows(path, workload="i2v"))
        for path in sorted(tree.rglob("*.parquet"))
    }


def values(row: FastVideoRow, name: str) -> np.ndarray:
    tensor = row.tensors[name]
    assert tensor is not None, name
    return tensor


def encoded(layout: Layout) -> dict[str, dict[str, Any]]:
    """By id what the encode stages made, under FastVideo's names."""
    found: dict[str, dict[str, Any]] = {}
    for shard in read_shards(layout.shards):
        for stage in ENCODE_STAGES:
            with row_reader(row_path(layout, stage, shard.shard)) as reader:
                for number, sample_id in enumerate(reader.header.metadata["sample_ids"]):
                    row = reader.row(number)
                    if stage == "encode_text":
                        row["prompt_embeds"] = row["prompt_embeds"][: int(row["prompt_length"])]
                    tensors = found.setdefault(f"{sample_id:010d}", {})
                    for ours, theirs in STORED_NAMES[stage].items():
                        tensors[theirs] = row[ours].numpy()
    return found


def test_ten_clips_make_two_files_and_a_caption_encodes_one_text(
    project: "ProjectFolder", tmp_path_factory: pytest.TempPathFactory
) -> None:
    encoders = tmp_path_factory.mktemp("wan")
    build_tiny_wan(encoders, workload="i2v")
    draw_clips(project.folder / "clips", count=NUM_CLIPS, seed=1)
    recipe(project, encoders, intermediates="keep")
    report = project.run()
    assert report.ok, report.error
    layout = project.layout()
    files = published(layout.output_dir)
    assert {name: len(rows) for name, rows in files.items()} == {
        "worker_0/data_chunk_0.parquet": 8,
        "worker_0/data_chunk_1.parquet": 2,
    }
    rows = {row.id: row for found in files.values() for row in found}
    made = encoded(layout)
    assert rows.keys() == made.keys()
    for key, row in rows.items():
        assert (row.width, row.height, row.num_frames, row.fps) == (64, 32, 5, 16.0)
        for name, tensor in made[key].items():
            assert np.array_equal(values(row, name), tensor), name
    assert len(removable(layout, "intermediates", formats=("fastvideo",)).paths) == 4
    check_clips_list(layout, rows)
    check = decode_clips(layout.output_dir, count=2, project=None, vae=str(encoders), device="cpu")
    assert check.message.startswith("vae_latent: 2 encoded again")
    check_rerun(project, encoders, rows)


def check_clips_list(layout: Layout, rows: dict[str, FastVideoRow]) -> None:
    text = (layout.output_dir / "clips.jsonl").read_text("utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["prompt"] for line in lines] == [row.caption for row in rows.values()]
    assert all(Path(line["video"]).is_file() for line in lines)


def check_rerun(project: "ProjectFolder", encoders: Path, before: dict[str, FastVideoRow]) -> None:
    """A caption changes, and row files go: then, that one text alone is encoded."""
    table = project.folder / "clips" / "videos2caption.json"
    entries = json.loads(table.read_text())
    entries[2]["cap"] = ["something else"]
    table.write_text(json.dumps(entries))
    recipe(project, encoders, intermediates="prune")
    report = project.run()
    assert report.ok, report.error
    stages = {stage: report.summaries[stage].samples.encoded for stage in ENCODE_STAGES}
    assert stages == {
        "encode_latents": 0,
        "encode_text": 1,
        "encode_first_frame": 0,
        "encode_clip": 0,
    }
    layout = project.layout()
    shard = read_shards(layout.shards)[0].shard
    assert not any(row_path(layout, stage, shard).exists() for stage in ENCODE_STAGES)
    files = published(layout.output_dir)
    assert sorted(files) == [f"worker_0-1/data_chunk_{number}.parquet" for number in (0, 1)]
    for row in (row for rows in files.values() for row in rows):
        same = row.caption == before[row.id].caption
        assert same == (row.caption != "something else")
        assert np.array_equal(values(row, "vae_latent"), values(before[row.id], "vae_latent"))
