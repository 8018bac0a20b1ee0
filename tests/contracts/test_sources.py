"""What every kind of source promises, of pictures and of clips."""

import io
import json
import pickle
import tarfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from diffprep_resources.errors import SourceChangedError
from diffprep_resources.sources.base import Source, SourceSample
from diffprep_resources.sources.directory import DirectorySource
from diffprep_resources.sources.fields import FieldKeys, field_keys
from diffprep_resources.sources.hub_folder import ClipFolderSource
from diffprep_resources.sources.huggingface import HuggingFaceSource
from diffprep_resources.sources.webdataset import WebDatasetSource

NUM_FILES, NUM_PICTURES = 3, 20
CLIPS = field_keys(media="clips")


def picture(file: int, number: int) -> bytes:
    return f"{file}-{number}".encode() * (number + 1)


def fields(file: int, number: int) -> dict[str, object]:
    """What the source holds of a picture besides its caption; the first has no score."""
    score = {} if number == 0 else {"score": number}
    return {**score, "meta": {"file": f"f{file}", "tags": ["a", f"t{number}"]}}


def directory(root: Path) -> Source:
    for file in range(NUM_FILES):
        for number in range(NUM_PICTURES):
            stem = root / f"images/{file}-{number:02}"
            stem.parent.mkdir(exist_ok=True)
            stem.with_suffix(".jpg").write_bytes(picture(file, number))
            stem.with_suffix(".txt").write_text("words")
            stem.with_suffix(".json").write_text(json.dumps(fields(file, number)))
    return DirectorySource(root)


def clip_directory(root: Path) -> Source:
    for file in range(NUM_FILES):
        for number in range(NUM_PICTURES):
            stem = root / f"{file}-{number:02}"
            stem.with_suffix(".mp4").write_bytes(picture(file, number))
            stem.with_suffix(".txt").write_text("words")
            stem.with_suffix(".json").write_text(json.dumps(fields(file, number)))
    return ClipFolderSource(str(root), keys=CLIPS)


def merged_folder(root: Path) -> Source:
    (root / "videos").mkdir()
    rows = []
    for file in range(NUM_FILES):
        for number in range(NUM_PICTURES):
            name = f"{file}-{number:02}.mp4"
            (root / "videos" / name).write_bytes(picture(file, number))
            rows.append({"path": name, "cap": ["words"], **fields(file, number)})
    (root / "videos2caption.json").write_text(json.dumps(rows))
    return ClipFolderSource(str(root), keys=CLIPS)


def webdataset(root: Path, *, suffix: str = "jpg", keys: FieldKeys | None = None) -> Source:
    for file in range(NUM_FILES):
        with tarfile.open(root / f"{file}.tar", "w") as tar:
            for number in range(NUM_PICTURES):
                stored = json.dumps(fields(file, number)).encode()
                members = (("txt", b"words"), (suffix, picture(file, number)), ("json", stored))
                for ending, data in members:
                    info = tarfile.TarInfo(f"{number:02}.{ending}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
    return WebDatasetSource(f"{root}/*.tar", keys=keys)


def clip_tars(root: Path) -> Source:
    return webdataset(root, suffix="mp4", keys=CLIPS)


def huggingface(root: Path, *, column: str = "image", keys: FieldKeys | None = None) -> Source:
    for file in range(NUM_FILES):
        images = [{"bytes": picture(file, number), "path": "x"} for number in range(NUM_PICTURES)]
        rows = [fields(file, number) for number in range(NUM_PICTURES)]
        columns = {name: [row.get(name) for row in rows] for name in ("score", "meta")}
        table = pa.table({column: images, "text": ["words"] * NUM_PICTURES, **columns})
        pq.write_table(table, root / f"train-{file}.parquet", row_group_size=6)
    return HuggingFaceSource(root, keys=keys)


def clip_tables(root: Path) -> Source:
    return huggingface(root, column="video", keys=CLIPS)


PICTURE_SOURCES = [directory, webdataset, huggingface]
CLIP_SOURCES = [clip_directory, merged_folder, clip_tars, clip_tables]


@pytest.fixture(params=[*PICTURE_SOURCES, *CLIP_SOURCES])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Source:
    make: Callable[[Path], Source] = request.param
    return make(tmp_path)


@pytest.fixture(params=CLIP_SOURCES)
def clips(request: pytest.FixtureRequest, tmp_path: Path) -> Source:
    make: Callable[[Path], Source] = request.param
    return make(tmp_path)


def bytes_of(source: Source, sample: SourceSample) -> bytes:
    """What the sample's picture or clip holds."""
    return sample.image if sample.image is not None else opened(source, sample)


def opened(source: Source, sample: SourceSample) -> bytes:
    with source.open_media(sample.location) as media:
        if isinstance(media, Path):
            return media.read_bytes()
        media.seek(0)
        return media.read()


def read(source: Source) -> list[SourceSample]:
    return list(source.samples(source.stamps(file.path for file in source.listing().files)))


def test_every_picture_is_a_sample_with_its_caption_in_source_order(source: Source) -> None:
    samples = read(source)
    expected = [picture(file, n) for file in range(NUM_FILES) for n in range(NUM_PICTURES)]
    assert [bytes_of(source, sample) for sample in samples] == expected
    assert {str(s.caption).strip("b'[]") for s in samples} == {"words"}
    assert len({sample.source_key for sample in samples}) == len(samples)


def test_files_are_listed_sorted_and_counted_as_read(source: Source) -> None:
    files = source.listing().files
    assert [file.path for file in files] == sorted(file.path for file in files)
    for file in files:
        count = len(list(source.samples(source.stamps([file.path]))))
        assert file.num_samples in (None, count)
        assert source.num_samples(file.path) == count


def test_a_pickled_source_reads_the_same_pictures_by_location(source: Source) -> None:
    samples = read(source)
    copy = pickle.loads(pickle.dumps(source))
    images = [copy.read_image(sample.location) for sample in samples]
    assert images == [bytes_of(source, sample) for sample in samples]
    assert read(copy) == samples


def test_clips_are_opened_from_several_threads_at_once(clips: Source) -> None:
    samples = read(clips)
    assert all(sample.image is None for sample in samples)
    shuffled = samples[::3] + samples[1::3] + samples[2::3]
    copy = pickle.loads(pickle.dumps(clips))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda sample: opened(copy, sample), shuffled))
    assert found == [opened(clips, sample) for sample in shuffled]


def test_a_clip_whose_file_was_cut_or_went_is_told_so(clips: Source, tmp_path: Path) -> None:
    sample = read(clips)[-1]
    path = tmp_path / sample.location.path
    if sample.location.offset >= 0:
        path.write_bytes(path.read_bytes()[: sample.location.offset + 1])
    else:
        path.unlink()
    with pytest.raises(SourceChangedError, match="source changed since bucket"):
        opened(pickle.loads(pickle.dumps(clips)), sample)


def test_pictures_are_read_from_several_threads_at_once(source: Source) -> None:
    samples = read(source)
    shuffled = samples[::3] + samples[1::3] + samples[2::3]
    with ThreadPoolExecutor(8) as pool:
        images = list(pool.map(lambda sample: source.read_image(sample.location), shuffled))
    assert images == [bytes_of(source, sample) for sample in shuffled]


def test_stamps_keep_the_order_asked_for_and_pass_over_what_is_gone(source: Source) -> None:
    paths = [file.path for file in source.listing().files][::-1]
    stamps = list(source.stamps([*paths, "gone"]))
    assert [stamp.path for stamp in stamps] == paths
    assert all(stamp.size > 0 and stamp.mtime_ns > 0 and stamp.ctime_ns > 0 for stamp in stamps)


def test_a_source_on_disk_has_no_revision(source: Source) -> None:
    assert source.revision() is None
    assert source.files_per_part == (
        256
        if isinstance(source, ClipFolderSource)
        else 4096
        if isinstance(source, DirectorySource)
        else 1
    )


def test_fields_are_read_by_dotted_names_for_every_picture_in_source_order(source: Source) -> None:
    samples = read(source)
    stamps = list(source.stamps(file.path for file in source.listing().files))
    held = list(source.field_stamps(stamps))
    names = ["meta.tags.1", "score", "meta.file", "nothing.here"]
    found = list(pickle.loads(pickle.dumps(source)).fields(held, names))
    assert [picture.source_key for picture in found] == [sample.source_key for sample in samples]
    assert [picture.values for picture in found] == [
        (f"t{number}", number or None, f"f{file}", None)
        for file in range(NUM_FILES)
        for number in range(NUM_PICTURES)
    ]
    assert [stamp.path for stamp in held] == [stamp.path for stamp in stamps]
    known = source.field_names(held)
    assert {"score", "meta.file"} <= known
    assert not known & {"image", "image.bytes", "jpg", "video", "video.bytes", "mp4"}
