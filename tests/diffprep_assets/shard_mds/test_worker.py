"""One dataset is made in full; then the worker makes its shards again, under other conditions."""

import io
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from diffprep_assets.dataset import Dataset
from diffprep_assets.encode_latents.pixels import member_pixels
from diffprep_assets.encode_latents.worker import picture_fingerprint
from diffprep_assets.encoded_rows import encoded_rows
from diffprep_assets.encoded_shard import reject_row
from diffprep_assets.layout import Layout
from diffprep_assets.preview.looks import psnr
from diffprep_assets.shard.commit import finish_commit
from diffprep_assets.shard.finished_worker import ShardTask, shard_task
from diffprep_assets.shard.record import ShardRecord, read_record, read_samples
from diffprep_assets.shard_mds.columns import picture_columns
from diffprep_assets.shard_mds.worker import MdsSpec, MdsWorker, mds_spec
from diffprep_assets.shard_plan.members import members_of_shard
from diffprep_assets.shard_plan.plan import PlannedShard
from diffprep_assets.source_columns.table import read_field_rows, write_columns
from diffprep_assets.stage_inputs import shards_of_plan
from diffprep_assets.validate.mds import validate_mds
from diffprep_resources.compute.base import unheard
from diffprep_resources.errors import (
    SampleReject,
    SettingError,
    SourceChangedError,
    StageInputError,
)
from diffprep_resources.mds.reader import open_shard
from diffprep_resources.pictures.decode import PictureLimits
from diffprep_resources.storage.row_file import RowLayout, read_header, row_file


@pytest.fixture(scope="module")
def made(
    tmp_path_factory: pytest.TempPathFactory, empty_project_in: Callable[..., Any]
) -> Iterator[Any]:
    """A project whose dataset `set` is published as MDS, with latents and a further caption."""
    folder = tmp_path_factory.mktemp("mds")
    with pytest.MonkeyPatch.context() as patch:
        project = empty_project_in(folder, patch=patch)
        for drawing in project.write_pictures(range(6)):
            path = project.pictures / "captions" / f"{drawing.stem}.json"
            path.with_suffix(".txt").unlink()
            further = None if drawing.stem == "p003" else f"more of {drawing.stem}"
            path.write_text(json.dumps({"caption": drawing.caption, "long": further}), "utf-8")
        project.write_recipe(
            output={"formats": ["mds"], "shard_size": 4},
            model={"vae_latent_mode": "resample", "precision": "bf16", "t5_max_length": 64},
            mds={"latents": True, "text_latents": True, "caption_columns": {"long": 2}},
        )
        assert project.run().ok
        yield project


@pytest.fixture
def dataset(made: Any, tmp_path: Path) -> Dataset:
    """The dataset, with a copy of its work that the test may change."""
    whole = made.dataset()
    shutil.copytree(whole.storage_root, tmp_path / "storage")
    return replace(whole, storage_root=tmp_path / "storage")


@pytest.fixture
def layout(dataset: Dataset) -> Layout:
    return dataset.layout.of("mds")


@pytest.fixture
def shard(dataset: Dataset) -> PlannedShard:
    return shards_of_plan(dataset)[0]


def make(
    dataset: Dataset,
    shard: PlannedShard,
    *,
    spec: MdsSpec | None = None,
    **changes: Any,
) -> tuple[int, ShardRecord]:
    """How many pictures were stored anew, and the shard's record."""
    worker = MdsWorker(spec or mds_spec(dataset))
    worker.setup("cpu")
    task: ShardTask = replace(shard_task(dataset, shard, format="mds"), **changes)
    result = worker.make(task, unheard)
    record = read_record(dataset.layout.of("mds").shard_record(shard.shard))
    assert record is not None
    return result.counts.encoded, record


def test_the_published_tree_is_valid_and_says_so(made: Any):
    report = validate_mds(made.dataset().layout.output_dir, full=True)
    assert report.ok, report.failures
    assert report.facts["samples"] == 6


def test_a_sample_holds_what_the_plan_and_the_encoders_say(
    dataset: Dataset, layout: Layout, shard: PlannedShard
):
    members = members_of_shard(layout, shard.shard)
    settings = mds_spec(dataset).encoded.latents or {}
    with open_shard(layout.shard_file(shard.shard)) as reader:
        samples = list(reader)
    assert len(samples) == len(members) == 4
    for sample, member in zip(samples, members, strict=True):
        assert sample["id"] == member.planned.key
        assert sample["caption"] == member.caption
        stem = Path(sample["source_key"]).stem
        assert sample["long"] == ("" if stem == "p003" else f"more of {stem}")
        stored = Image.open(io.BytesIO(sample["image"]))
        assert (sample["width"], sample["height"]) == stored.size == (64, 64)
        sizes = (sample["original_width"], sample["original_height"])
        assert sizes == (member.original_width, member.original_height)
        likeness = psnr(np.asarray(stored), member_pixels(dataset, member))
        assert likeness is None or likeness > 35
        fingerprint = picture_fingerprint(member.planned, settings)
        with encoded_rows(
            layout, "encode_latents", shards=[shard.shard], wanted=[fingerprint]
        ) as rows:
            found = rows.find(fingerprint)
        assert found is not None
        assert np.array_equal(sample["img_latent"], picture_columns(found)["img_latent"])
        assert sample["latent_caption_t5"].shape[0] == len(sample["attention_mask_caption_t5"])
        assert 0 < sample["attention_mask_caption_t5"].sum() < 64


def test_the_same_shard_has_the_same_bytes(dataset: Dataset, layout: Layout, shard: PlannedShard):
    first = layout.shard_file(shard.shard).read_bytes()
    forget(layout)
    made, record = make(dataset, shard)
    assert made == record.num_samples == 4
    assert layout.shard_file(shard.shard).read_bytes() == first


def test_pictures_are_taken_from_the_shard_before_and_no_source_is_read(
    dataset: Dataset, layout: Layout, shard: PlannedShard, made: Any
):
    before = layout.shard_file(shard.shard).read_bytes()
    spec = mds_spec(dataset)
    gone = replace(spec, pictures=replace(spec.pictures, source=None))
    assert make(dataset, shard, spec=gone, fingerprint="other")[0] == 0
    assert layout.shard_file(shard.shard).read_bytes() == before


def test_a_damaged_picture_is_read_again(dataset: Dataset, layout: Layout, shard: PlannedShard):
    path = layout.shard_file(shard.shard)
    before = path.read_bytes()
    row = read_samples(layout.shard_samples(shard.shard))[1]
    part = next(part for part in row.parts if part.name == "image")
    place = part.offset + part.size // 2
    path.write_bytes(before[:place] + bytes([before[place] ^ 1]) + before[place + 1 :])
    assert make(dataset, shard, fingerprint="other")[0] == 1
    assert path.read_bytes() == before


def with_limits(dataset: Dataset, max_pixels: int) -> MdsSpec:
    spec = mds_spec(dataset)
    return replace(spec, pictures=replace(spec.pictures, limits=PictureLimits(max_pixels, 1)))


def test_a_picture_that_cannot_be_stored_is_a_reject(
    dataset: Dataset, layout: Layout, shard: PlannedShard
):
    forget(layout)
    made, record = make(dataset, shard, spec=with_limits(dataset, 14_000))
    rejects = {reject.source_key: (reject.stage, reject.code) for reject in record.rejects}
    assert rejects == dict.fromkeys(
        ("images/p000.jpg", "images/p002.png"), ("shard_mds", "too_large")
    )
    assert made == record.num_samples == 2
    with open_shard(layout.shard_file(shard.shard)) as reader:
        assert [sample["id"] for sample in reader] == ["0000000001", "0000000003"]
    again, record = make(dataset, shard, fingerprint="other")
    assert (again, len(record.rejects)) == (0, 2)


def test_a_shard_with_nothing_left_is_whole_and_holds_no_byte(
    dataset: Dataset, layout: Layout, shard: PlannedShard
):
    forget(layout)
    _, record = make(dataset, shard, spec=with_limits(dataset, 1))
    assert (record.num_samples, record.size_bytes, len(record.rejects)) == (0, 0, 4)
    assert (
        MdsWorker(mds_spec(dataset)).finished(shard_task(dataset, shard, format="mds")) is not None
    )


def forget(layout: Layout) -> None:
    """Remove the finished shards."""
    for path in layout.shards_folder.iterdir():
        path.unlink()


def test_whom_encoding_left_out_is_left_out_with_the_same_reason(
    dataset: Dataset, layout: Layout, shard: PlannedShard
):
    forget(layout)
    path = layout.latents(shard.shard)
    header = read_header(path)
    assert header is not None
    member = members_of_shard(layout, shard.shard)[2]
    reject = reject_row(
        "encode_latents", member, SampleReject("non_finite", "latents"), fingerprint="f"
    )
    rows: RowLayout = {name: ("bfloat16", (16, 8, 8)) for name in ("latents", "mean", "logvar")}
    with row_file(path, rows=rows, num_rows=4, metadata=header.metadata) as file:
        file.close(rejects=[reject])
    made, record = make(dataset, shard)
    assert made == record.num_samples == 3
    left_out = [(r.source_key, r.stage, r.code) for r in record.rejects]
    assert left_out == [("images/p002.png", "encode_latents", "non_finite")]


def test_a_caption_column_that_holds_numbers_is_refused(
    dataset: Dataset, layout: Layout, shard: PlannedShard
):
    path = layout.source_columns("p00000")
    rows = [replace(row, values=(7,)) for row in read_field_rows(path)]
    write_columns(path, rows, names=["long"], metadata={})
    with pytest.raises(SettingError, match="long, which holds int"):
        make(dataset, shard)


def test_rows_of_another_encoding_are_refused(
    dataset: Dataset, layout: Layout, shard: PlannedShard
):
    with pytest.raises(StageInputError, match="encode_text is stale"):
        make(dataset, shard, encoded={"encode_text": "another"})


def test_other_bytes_than_bucket_saw_fail_the_shard(
    dataset: Dataset, layout: Layout, shard: PlannedShard
):
    forget(layout)

    class Changed:
        def read_image(self, location: object) -> bytes:
            return b"another file"

    spec = mds_spec(dataset)
    changed: Any = Changed()
    with pytest.raises(SourceChangedError, match="run download and bucket again"):
        make(dataset, shard, spec=replace(spec, pictures=replace(spec.pictures, source=changed)))
    assert not layout.shard_file(shard.shard).exists()


@pytest.mark.parametrize("renamed", [False, True])
def test_a_commit_that_was_broken_off_is_brought_to_one_of_its_ends(
    dataset: Dataset, layout: Layout, shard: PlannedShard, renamed: bool
):
    key = shard.shard
    whole, old = layout.shard_file(key).read_bytes(), read_record(layout.shard_record(key))
    assert old is not None
    shutil.copy(layout.shard_record(key), layout.shard_next_record(key))
    shutil.copy(layout.shard_samples(key), layout.shard_next_samples(key))
    if not renamed:
        layout.shard_file(key).write_bytes(whole[:-1])
    finish_commit(layout, key)
    assert not layout.shard_next_record(key).exists()
    worker = MdsWorker(mds_spec(dataset))
    finished = worker.finished(shard_task(dataset, shard, format="mds"))
    assert (finished is not None) == renamed
