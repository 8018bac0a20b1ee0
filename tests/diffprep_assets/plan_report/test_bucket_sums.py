"""What resizing does to samples, by bucket."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from diffprep_assets.bucket.table import BucketRow, bucket_table
from diffprep_assets.plan_report.bucket_sums import BucketSums
from diffprep_assets.plan_report.curation import LeftOut
from diffprep_assets.plan_report.facts import BucketFacts
from diffprep_assets.plan_report.kept_rows import kept_rows
from diffprep_assets.plan_report.table_pass import TablePass, caption_with
from diffprep_assets.shard_plan.plan import Bucket


def row(
    number: int, original: tuple[int, int], crop: tuple[int, int], to: tuple[int, int]
) -> BucketRow:
    return BucketRow(
        source_key=f"{number}.jpg",
        group=f"{number}.jpg",
        path=f"{number}.jpg",
        stamp="s",
        caption=f"caption {number}" if number else "",
        caption_digest=f"{number:032x}",
        image_digest="0" * 32,
        original_width=original[0],
        original_height=original[1],
        tier=512,
        width=to[0],
        height=to[1],
        crop_left=0,
        crop_top=0,
        crop_width=crop[0],
        crop_height=crop[1],
    )


def table(path: Path, rows: Sequence[BucketRow]) -> Path:
    with bucket_table(path, metadata={}) as writer:
        writer.add(rows)
    return path


def facts_of(path: Path, rows: Sequence[BucketRow]) -> dict[Bucket, BucketFacts]:
    sums = BucketSums()
    for some in kept_rows([table(path, rows)], without=LeftOut()):
        sums.add(some)
    return sums.facts()


def test_crops_growth_and_squeezing_are_summed_by_bucket(tmp_path: Path):
    found = facts_of(
        tmp_path / "t.parquet",
        [
            row(0, (1000, 500), (500, 500), (512, 512)),  # half cut off, enlarged
            row(1, (2000, 2000), (2000, 2000), (512, 512)),
            row(2, (1200, 1000), (1200, 1000), (512, 512)),  # squeezed by a fifth
            row(3, (1500, 1000), (1500, 1000), (576, 448)),  # by a sixth
            BucketRow("r", "r", "r", "s", code="too_small", message="m"),
        ],
    )
    square = found[Bucket(512, 512, 512)]
    assert (square.samples, square.upscaled, square.distorted) == (3, 1, 1)
    assert square.share == 0.75
    assert square.crop_loss == pytest.approx(0.5 / 3)
    assert square.megapixels == pytest.approx((0.25 + 4 + 1.2) / 3)
    wide = found[Bucket(512, 576, 448)]
    assert (wide.samples, wide.upscaled, wide.distorted, wide.crop_loss) == (1, 0, 1, 0.0)
    assert list(found) == [Bucket(512, 512, 512), Bucket(512, 576, 448)]


def test_a_pixel_of_rounding_is_neither_growth_nor_squeezing(tmp_path: Path):
    found = facts_of(tmp_path / "t.parquet", [row(1, (3001, 2000), (3000, 2000), (768, 512))])
    (facts,) = found.values()
    assert (facts.upscaled, facts.distorted) == (0, 0)


def test_one_pass_chooses_captions_and_pictures_and_counts_what_is_empty(tmp_path: Path):
    rows = [row(n, (600, 600), (600, 600), (512, 512)) for n in range(300)]
    path = table(tmp_path / "t.parquet", rows)
    found, again = (TablePass([path], samples=300, without=LeftOut()) for _ in range(2))
    assert found.empty == 1
    assert sorted(found.captions.items) == sorted(str(one.caption) for one in rows)
    shown = found.chosen[Bucket(512, 512, 512)].items
    assert len(shown) == 24
    assert shown == again.chosen[Bucket(512, 512, 512)].items
    assert found.repeats.repeats().share == 1.0  # their digests begin alike
    assert caption_with([path], 0, without=LeftOut()) == ""
    assert caption_with([path], 5, without=LeftOut()) is None


def test_samples_that_were_left_out_after_bucket_are_in_no_number(tmp_path: Path):
    rows = [row(n, (600, 600), (600, 600), (512, 512)) for n in range(9)]
    path = table(tmp_path / "p00000.parquet", rows)
    without = LeftOut(
        {
            "p00000": frozenset({"3.jpg", "0.jpg"}),
            "p00001": frozenset({"4.jpg"}),
            None: frozenset({"7.jpg"}),
        }
    )
    found = TablePass([path], samples=6, without=without)
    assert found.sums.samples == 6
    assert found.empty == 0
    assert sorted(found.captions.items) == [f"caption {n}" for n in (1, 2, 4, 5, 6, 8)]
    assert TablePass([path], samples=9, without=LeftOut()).text.plain > found.text.plain
