"""A part of a folder of pictures, through download, bucket and source_columns."""

import io
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from PIL import Image as Picture

from diffprep_assets.bucket.scan import BucketRules
from diffprep_assets.bucket.worker import BucketSpec, bucket_task
from diffprep_assets.download.worker import DownloadSpec, download_task
from diffprep_assets.layout import Layout
from diffprep_assets.partition_worker import PartitionResult
from diffprep_assets.recipe.schema import Captions, Image
from diffprep_assets.source_columns.table import column_types, read_columns, read_head
from diffprep_assets.source_columns.worker import ColumnsSpec, columns_task, finished_columns
from diffprep_resources.errors import SettingError, StageInputError
from diffprep_resources.sources.base import FileStamp, SampleFields
from diffprep_resources.sources.directory import DirectorySource

PART = "p00000"


class CountingSource(DirectorySource):
    """A folder that remembers whose fields were read."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.read: list[str] = []

    def fields(self, stamps: Iterable[FileStamp], names: Sequence[str]) -> Iterator[SampleFields]:
        for found in super().fields(stamps, names):
            self.read.append(found.source_key)
            yield found


class Part:
    """One part over a folder of pictures; `bucket` and `columns` are stages run by workers."""

    def __init__(self, folder: Path) -> None:
        self.pictures = folder / "pictures"
        self.pictures.mkdir()
        self.layout = Layout(folder / "work", "set", folder / "out")
        self.captions = Captions()

    def add(self, name: str, caption: str = "words", **fields: Any) -> None:
        buffer = io.BytesIO()
        Picture.new("RGB", (64, 64), "red").save(buffer, "png")
        (self.pictures / f"{name}.png").write_bytes(buffer.getvalue())
        (self.pictures / f"{name}.txt").write_text(caption)
        self.edit(name, **fields)

    def edit(self, name: str, **fields: Any) -> None:
        path = self.pictures / f"{name}.json"
        path.write_text(json.dumps(fields))
        # A clock's tick may be longer than a test.
        os.utime(path, ns=(0, len(path.read_text()) + sum(path.read_bytes())))

    def bucket(self) -> None:
        source = DirectorySource(self.pictures)
        paths = [file.path for file in source.listing().files]
        download = download_task(PART, paths, source=source, revision=None)
        DownloadSpec(self.layout, source).build().process(download, _unheard)
        task = bucket_task(self.layout, PART, settings={}, limit=None)
        assert task is not None
        rules = BucketRules(Image(image_size=64), self.captions)
        BucketSpec(self.layout, source, rules, {}).build().process(task, _unheard)

    def columns(self, *names: str) -> tuple[PartitionResult, list[str]]:
        """What the stage came to, and whose fields it read."""
        self.bucket()
        source, settings = CountingSource(self.pictures), {"columns": list(names)}
        task = columns_task(self.layout, PART, source=source, settings=settings)
        assert task is not None
        told: list[int] = []
        spec = ColumnsSpec(self.layout, source, settings)
        result = spec.build().process(task, lambda count, rejected=0, /: told.append(count))
        assert sum(told) == task.num_samples
        assert finished_columns(self.layout, task) is not None
        return result, source.read

    @property
    def path(self) -> Path:
        return self.layout.source_columns(PART)


def _unheard(num_samples: int, rejected: int = 0, /) -> None:
    pass


@pytest.fixture
def part(tmp_path: Path) -> Part:
    return Part(tmp_path)


def test_kept_samples_have_the_columns_asked_for_typed(part: Part) -> None:
    part.add("a", score=1, meta={"tag": "x"})
    part.add("b", score=0.5)
    part.add("bad", caption="", score=9)
    part.add("c")
    result, _ = part.columns("meta.tag", "score")
    assert (result.counts.samples_in, result.counts.encoded) == (3, 3)
    assert read_columns(part.path, "score", "meta.tag").to_pylist() == [
        {"source_key": "a.png", "score": 1.0, "meta.tag": "x"},
        {"source_key": "b.png", "score": 0.5, "meta.tag": None},
        {"source_key": "c.png", "score": None, "meta.tag": None},
    ]
    assert column_types(part.path) == {"meta.tag": pa.string(), "score": pa.float64()}
    assert (read_head(part.path) or {})["known_names"] == ["meta.tag", "score"]


def test_captions_of_one_picture_share_its_values(part: Part) -> None:
    part.captions = Captions(choose="all", lines="each")
    part.add("a", caption="one\ntwo", score=5)
    part.columns("score")
    assert read_columns(part.path, "score").to_pylist() == [
        {"source_key": "a.png::c0", "score": 5},
        {"source_key": "a.png::c1", "score": 5},
    ]


def test_only_changed_files_are_read_again_and_the_bytes_are_those_of_a_fresh_read(
    part: Part,
) -> None:
    for name, score in {"a": 1, "b": 2, "c": "three"}.items():
        part.add(name, score=score)
    assert part.columns("score")[1] == ["a.png", "b.png", "c.png"]
    assert column_types(part.path) == {"score": pa.string()}
    part.edit("c", score=3)
    part.add("d", score=4)
    result, read = part.columns("score")
    assert read == ["c.png", "d.png"]
    assert result.counts.reused == 2
    assert column_types(part.path) == {"score": pa.int64()}
    taken_over = part.path.read_bytes()
    part.path.unlink()
    assert part.columns("score")[1] == ["a.png", "b.png", "c.png", "d.png"]
    assert part.path.read_bytes() == taken_over
    assert part.columns("score")[1] == []
    assert len(part.columns("score", "other")[1]) == 4


def test_a_missing_bucket_table_and_our_own_name_are_refused(part: Part) -> None:
    source, settings = DirectorySource(part.pictures), {"columns": ["score"]}
    assert columns_task(part.layout, PART, source=source, settings=settings) is None
    part.add("a", score=1)
    part.bucket()
    task = columns_task(part.layout, PART, source=source, settings=settings)
    assert task is not None
    part.layout.bucket(PART).unlink()
    with pytest.raises(StageInputError, match="bucket is missing or changed"):
        ColumnsSpec(part.layout, source, settings).build().process(task, _unheard)
    part.bucket()
    with pytest.raises(SettingError, match="named source_key"):
        columns_task(part.layout, PART, source=source, settings={"columns": ["source_key"]})
