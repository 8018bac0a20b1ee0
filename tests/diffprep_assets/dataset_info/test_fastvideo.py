from pathlib import Path

import pytest

from diffprep_assets.dataset_info.gather import dataset_info
from diffprep_assets.layout import Layout
from diffprep_assets.published_files import published_files
from diffprep_resources.errors import DiffprepError


@pytest.fixture
def published(make_fastvideo_shard, publish_clips, fastvideo_layout: Layout) -> Path:
    publish_clips(
        make_fastvideo_shard(0, range(10), skipped={3: "dedup"}),
        make_fastvideo_shard(1, [10], split="val"),
    )
    return fastvideo_layout.output_dir


def test_the_facts_are_those_of_the_files(published: Path):
    info = dataset_info(published, project=None)
    assert (info.kind, info.encoding, info.shards, info.samples) == (
        "FastVideo",
        "fastvideo",
        2,
        10,
    )
    assert info.splits == {"train": 9, "val": 1}
    assert info.problems == ()
    members = {member.name: member for member in info.members}
    assert members["vae_latent"].content == "float32 [4, 2, 2, 4]"
    assert members["vae_latent"].total_bytes == 4 * 64
    assert info.captions is not None
    assert info.captions.captions == 10
    assert f"--data_path {published}/training_dataset" in info.loading


def test_a_folder_whose_files_are_all_gone_is_no_dataset(published: Path):
    for path in published.rglob("*.parquet"):
        path.unlink()
    with pytest.raises(DiffprepError, match="holds no dataset"):
        dataset_info(published, project=None)


def test_every_file_there_is_known_as_published(published: Path, fastvideo_layout: Layout):
    there = {path for path in published.rglob("*") if path.is_file()}
    assert published_files(fastvideo_layout) == there
