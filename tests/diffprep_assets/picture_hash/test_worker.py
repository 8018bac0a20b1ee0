"""A part of a folder of pictures, through download, bucket and picture_hash."""

import io
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from PIL import Image as Picture

from diffprep_assets.bucket.scan import BucketRules
from diffprep_assets.bucket.worker import BucketSpec, bucket_task
from diffprep_assets.download.worker import DownloadSpec, download_task
from diffprep_assets.layout import Layout
from diffprep_assets.partition_worker import PartitionResult
from diffprep_assets.picture_hash.table import read_hashes, read_head
from diffprep_assets.picture_hash.worker import HashSpec, finished_hashes, hash_task
from diffprep_assets.recipe.schema import Captions, Image
from diffprep_resources.errors import SourceChangedError, StageInputError
from diffprep_resources.pictures.opening import PictureLimits
from diffprep_resources.pictures.phash import perceptual_hash
from diffprep_resources.sources.base import Location
from diffprep_resources.sources.directory import DirectorySource
from diffprep_resources.sources.fields import field_keys

PART = "p00000"
LIMITS = PictureLimits(max_pixels=1_000_000, min_side=16)
SETTINGS = {"image.background": "#ffffff"}


class CountingSource(DirectorySource):
    """A folder that remembers which pictures were read by themselves."""

    def __init__(self, folder: str) -> None:
        keys = field_keys(image_key=None, caption_key=None)
        super().__init__(folder, keys=keys)
        self.read: list[str] = []

    def read_image(self, location: Location) -> bytes:
        self.read.append(location.path)
        return super().read_image(location)


class Part:
    """One part over a folder of pictures; `bucket` and `hash` are stages run by their workers."""

    def __init__(self, folder: Path) -> None:
        self.pictures = folder / "pictures"
        self.layout = Layout(folder / "work", "set", folder / "out")

    def write(self, name: str, data: bytes, caption: str = "a caption") -> None:
        stem = Path(name).stem
        for path, content in ((f"images/{name}", data), (f"captions/{stem}.txt", caption.encode())):
            file = self.pictures / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)

    def bucket(self, captions: Captions | None = None) -> None:
        source = CountingSource(str(self.pictures))
        paths = [file.path for file in source.listing().files]
        download = download_task(PART, paths, source=source, revision=None)
        DownloadSpec(self.layout, source).build().process(download, _unheard)
        rules = BucketRules(Image(image_size=64), captions or Captions())
        task = bucket_task(self.layout, PART, settings={}, limit=None)
        assert task is not None
        BucketSpec(self.layout, source, rules, {}).build().process(task, _unheard)

    def hash(
        self, settings: Mapping[str, Any] = SETTINGS, background: str = "#ffffff"
    ) -> tuple[PartitionResult, list[str]]:
        """What the stage came to, and which pictures it read."""
        task = hash_task(self.layout, PART, settings=dict(settings))
        assert task is not None
        source = CountingSource(str(self.pictures))
        spec = HashSpec(self.layout, source, dict(settings), LIMITS, background)
        told: list[int] = []
        result = spec.build().process(task, lambda count, rejected=0, /: told.append(count))
        assert sum(told) == task.num_samples
        return result, source.read

    @property
    def rows(self) -> list[dict[str, Any]]:
        return read_hashes(self.layout.picture_hash(PART)).to_pylist()


def _unheard(num_samples: int, rejected: int = 0, /) -> None:
    pass


@pytest.fixture
def part(tmp_path, drawing) -> Part:
    """Three pictures, of which one is transparent, a broken one and a flat one."""
    part = Part(tmp_path)
    for number in range(3):
        part.write(drawing(number).name, drawing(number).data)
    part.write("broken.jpg", b"no picture")
    flat = io.BytesIO()
    Picture.new("RGB", (40, 40), "red").save(flat, "PNG")
    part.write("flat.png", flat.getvalue())
    return part


def test_each_kept_picture_has_a_row_with_its_hash(part, drawing):
    part.bucket()
    result, read = part.hash()
    rows = {row["group"]: row for row in part.rows}
    expected = {
        f"images/{drawing(number).name}": perceptual_hash(
            drawing(number).data, limits=LIMITS, background="#ffffff"
        )
        for number in range(3)
    }
    assert None not in expected.values()
    assert {key: row["hash"] for key, row in rows.items()} == expected | {"images/flat.png": None}
    assert sorted(read) == sorted(rows)
    counts = result.counts
    assert (counts.samples_in, counts.samples_out, counts.encoded) == (4, 4, 4)
    assert not counts.rejects
    assert result.facts == {"without_hash": 1}


def test_a_second_run_finds_the_table_finished(part):
    part.bucket()
    first, _ = part.hash()
    task = hash_task(part.layout, PART, settings=SETTINGS)
    assert task is not None
    finished = finished_hashes(part.layout, task)
    assert finished is not None
    assert (finished.counts.encoded, finished.counts.reused) == (0, 4)
    assert finished.facts == first.facts
    assert part.hash()[1] == []


def test_a_changed_caption_reads_no_picture_and_a_new_picture_only_itself(part, drawing):
    part.bucket()
    before = part.hash()[0].fingerprint
    part.write(drawing(0).name, drawing(0).data, "another caption")
    part.bucket()
    result, read = part.hash()
    assert read == []
    assert result.fingerprint != before
    assert (result.counts.encoded, result.counts.reused) == (0, 4)
    part.write("new.jpg", drawing(4).data)
    part.bucket()
    assert part.hash()[1] == ["images/new.jpg"]
    assert len(part.rows) == 5


def test_equal_files_are_decoded_once_and_captions_of_one_picture_make_one_row(part, drawing):
    for name in ("again.jpg", "once-more.jpg"):
        part.write(name, drawing(0).data, "one\ntwo\nthree")
    part.bucket(Captions(choose="all", lines="each"))
    result, read = part.hash()
    assert len(part.rows) == 6
    same = [row for row in part.rows if row["image_digest"] == part.rows[0]["image_digest"]]
    assert len({row["hash"] for row in same}) == 1
    assert len(same) == 3
    assert len(read) == result.counts.encoded == 4


def test_another_background_hashes_every_picture_anew(part, drawing):
    part.bucket()
    part.hash()
    before = {row["group"]: row["hash"] for row in part.rows}
    _, read = part.hash({"image.background": "#000000"}, "#000000")
    assert len(read) == 4
    changed = [row["group"] for row in part.rows if row["hash"] != before[row["group"]]]
    assert changed == [f"images/{drawing(2).name}"]


def test_a_picture_that_changed_since_bucket_fails_the_part(part, drawing):
    part.bucket()
    (part.pictures / "images" / drawing(0).name).write_bytes(drawing(5).data)
    with pytest.raises(SourceChangedError, match=r"since bucket: images/p000\.jpg"):
        part.hash()
    (part.pictures / "images" / drawing(0).name).unlink()
    with pytest.raises(SourceChangedError, match=r"p000\.jpg"):
        part.hash()
    assert read_head(part.layout.picture_hash(PART)) is None


def test_pixels_that_cannot_be_decoded_leave_a_picture_without_a_hash(part, encoded_wrongly):
    part.write("wrong.png", encoded_wrongly)
    part.bucket()
    result, _ = part.hash()
    assert next(row["hash"] for row in part.rows if row["group"] == "images/wrong.png") is None
    assert result.facts == {"without_hash": 2}


def test_a_bucket_table_that_changed_meanwhile_is_told(part):
    assert hash_task(part.layout, PART, settings=SETTINGS) is None
    part.bucket()
    task = hash_task(part.layout, PART, settings=SETTINGS)
    assert task is not None
    part.layout.bucket(PART).unlink()
    spec = HashSpec(part.layout, CountingSource(str(part.pictures)), SETTINGS, LIMITS, "#ffffff")
    with pytest.raises(StageInputError, match="part p00000: bucket is missing or changed; run"):
        spec.build().process(task, _unheard)


@pytest.fixture
def encoded_wrongly() -> bytes:
    """A PNG with right sums over pixels that are no deflate stream: `bucket` keeps it."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        sums = struct.pack(">I", zlib.crc32(kind + body))
        return struct.pack(">I", len(body)) + kind + body + sums

    header = struct.pack(">IIBBBBB", 64, 64, 8, 2, 0, 0, 0)
    pixels = chunk(b"IDAT", b"no deflate stream")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + pixels + chunk(b"IEND", b"")
