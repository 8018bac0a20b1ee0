from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from diffprep_assets.energon_prepare.provenance import DatasetDescription
from diffprep_assets.energon_prepare.publish import FinishedShard, publish
from diffprep_assets.layout import Layout
from diffprep_assets.preview.sampling import chosen_places, published_folder, stored_sample
from diffprep_resources.errors import SettingError

if TYPE_CHECKING:
    from pathlib import Path

MakeShard = Callable[..., FinishedShard]


@pytest.fixture
def published(layout: Layout, make_shard: MakeShard, description: DatasetDescription) -> Layout:
    """Two buckets: nine samples in three shards, and one shard of two, in resample mode."""
    shards = [make_shard(number, range(3 * number, 3 * number + 3)) for number in range(3)]
    shards.append(make_shard(0, [20, 21], size=(32, 64), split="val", resample=True))
    publish(layout, shards=shards, description=description, nested=True)
    return layout


def test_every_bucket_and_shard_gets_its_turn(published: Layout) -> None:
    folder = published_folder(published.output_dir)
    places = chosen_places(folder, count=6, seed=0)
    shards = [place.shard for place in places]
    assert {shard.split("/")[1] for shard in shards} == {"64x32", "32x64"}
    assert len({shard for shard in shards if "64x32" in shard}) == 3
    assert sum("32x64" in shard for shard in shards) == 2
    assert len({(place.shard, place.row.key) for place in places}) == 6


def test_the_same_seed_gives_the_same_samples_and_another_gives_others(published: Layout) -> None:
    folder = published_folder(published.output_dir)
    first = chosen_places(folder, count=4, seed=1)
    assert first == chosen_places(folder, count=4, seed=1)
    assert any(first != chosen_places(folder, count=4, seed=seed) for seed in (2, 3, 4))


def test_more_samples_than_there_are_gives_all(published: Layout) -> None:
    places = chosen_places(published_folder(published.output_dir), count=99, seed=0)
    assert len(places) == 11


def test_tars_without_index_are_sampled_too(published: Layout) -> None:
    whole = chosen_places(published_folder(published.output_dir), count=99, seed=0)
    for path in published.nv_meta.iterdir():
        path.unlink()
    published.nv_meta.rmdir()
    published.dataset_json.unlink()
    assert chosen_places(published_folder(published.output_dir), count=99, seed=0) == whole


def test_an_excluded_sample_is_not_taken(published: Layout) -> None:
    folder = published_folder(published.output_dir)
    first = chosen_places(folder, count=1, seed=0)[0]
    split = published.nv_meta / "split.yaml"
    split.write_text(
        split.read_text().replace("exclude: []", f"exclude: ['{first.shard}/{first.row.key}']")
    )
    left = chosen_places(published_folder(published.output_dir), count=99, seed=0)
    assert len(left) == 10
    assert first.row.key not in {place.row.key for place in left}


def test_a_sample_is_read_with_its_caption_metadata_and_arrays(
    published: Layout, draw_tensors: Callable
) -> None:
    folder = published_folder(published.output_dir)
    places = chosen_places(folder, count=99, seed=0)
    sample = stored_sample(folder, places[-1])
    wanted = draw_tensors(int(sample.key), width=64, height=32, version="v1")
    assert (sample.arrays["latents"] == wanted["latents"].float().numpy()).all()
    assert sample.caption == f"picture {int(sample.key)} of v1 \u00e9"
    assert (sample.source_key, sample.split) == (f"images/{int(sample.key)}.jpg", "train")
    resampled = next(stored_sample(folder, p) for p in places if "32x64" in p.shard)
    assert set(resampled.arrays) == {"latents", "mean", "logvar"}


def test_a_folder_without_a_dataset_is_refused(tmp_path: "Path") -> None:
    with pytest.raises(SettingError, match="no tar"):
        published_folder(tmp_path)
    with pytest.raises(SettingError, match="there is none at"):
        published_folder(tmp_path / "gone")
