"""A few thousand damaged inputs: each becomes samples or rejects, quickly, and nothing else."""

import io
import os
import random
import signal
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from diffprep_assets.bucket.scan import BucketRules, rows_of
from diffprep_assets.recipe.load import load_recipe
from diffprep_assets.recipe.schema import Captions
from diffprep_assets.recipe.schema import Image as ImageSettings
from diffprep_resources.errors import REJECT_CODES, RecipeError, SampleReject
from diffprep_resources.pictures.decode import load_upright
from diffprep_resources.sources.base import Location, Source, SourceSample
from diffprep_resources.sources.directory import DirectorySource
from diffprep_resources.sources.huggingface import HuggingFaceSource
from diffprep_resources.sources.metadata_files import captions_of
from diffprep_resources.sources.names import is_safe
from diffprep_resources.sources.webdataset import WebDatasetSource

SECONDS_PER_CASE = 20
ANY_SOURCE = DirectorySource(".")
RULES = BucketRules(ImageSettings(image_size=64, max_pixels=4_000_000), Captions(choose="first"))
RECIPE = """\
source: {type: directory, input_dir: pictures}
output:
  output_dir: out
  shard_size: 100
  splits: {train: 0.8, val: 0.1, test: 0.1}
model: {model_path: "${MODEL:enc}", precision: bf16}
image:
  buckets: {tiers: [512, 1024], max_upscale: 4/3}
captions: &c {choose: all}
schedule: "0 3 * * *"
"""


def picture(kind: str, **options: object) -> bytes:
    rng = np.random.default_rng(3)
    pixels = Image.fromarray(rng.integers(0, 256, (24, 40, 3), dtype=np.uint8)).resize((80, 60))
    buffer = io.BytesIO()
    pixels.save(buffer, kind, **options)
    return buffer.getvalue()


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Some bytes changed, taken out, put in, doubled, or the end cut off."""
    content = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        at = rng.randrange(len(content) + 1)
        # Headers decide more than pixels do.
        at = at if rng.random() < 0.5 else min(at, rng.randrange(1, 600))
        action = rng.randrange(6)
        if action == 0 and at < len(content):
            content[at] ^= 1 << rng.randrange(8)
        elif action == 1 and at < len(content):
            content[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif action == 2:
            del content[at : at + rng.choice((1, 2, 4, 64, 512))]
        elif action == 3:
            content[at:at] = rng.randbytes(rng.choice((1, 2, 4, 64, 512)))
        elif action == 4:
            content[at:at] = content[at : at + 64]
        else:
            number = rng.choice((0, 1, 2**31 - 1, 2**32 - 1, 2**63 - 1)).to_bytes(8, "big")
            content[at : at + 4] = number[-4:]
        if not content:
            break
    return bytes(content[: rng.randrange(len(content) + 1)] if rng.random() < 0.1 else content)


@contextmanager
def limited(what: str) -> Iterator[None]:
    """Fails a case that takes too long."""

    def too_long(*_: object) -> None:
        raise AssertionError(f"{what} took more than {SECONDS_PER_CASE} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(SECONDS_PER_CASE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The one folder that holds files; nothing may appear beside it."""
    inner = tmp_path / "inner"
    inner.mkdir()
    here = Path.cwd()
    os.chdir(inner)
    before = set(here.iterdir()) | {inner}
    try:
        yield inner
    finally:
        os.chdir(here)
    assert set(tmp_path.iterdir()) | set(here.iterdir()) == before
    assert not [path for path in Path("/tmp").glob("*evil*")]


def outcome(sample: SourceSample) -> bool:
    """Whether a picture is kept all the way to its pixels; a reject has a known code."""
    (row,) = rows_of(sample, source=ANY_SOURCE, rules=RULES, stamp="")
    if row.code is None and sample.image is not None:
        assert (row.width, row.height) == (64, 64)
        try:
            pixels = load_upright(sample.image, limits=RULES.limits, background="#ffffff")
        except SampleReject:
            return False
        assert (pixels.size, pixels.mode) == ((row.original_width, row.original_height), "RGB")
        return True
    assert row.code in REJECT_CODES
    assert row.message
    return False


PICTURES: dict[str, Callable[[], bytes]] = {
    "jpeg": lambda: picture("JPEG", quality=80),
    "progressive": lambda: picture("JPEG", quality=80, progressive=True),
    "png": lambda: picture("PNG"),
    "webp": lambda: picture("WEBP", quality=80),
    "lossless": lambda: picture("WEBP", lossless=True),
    "gif": lambda: picture("GIF"),
    "tiff": lambda: picture("TIFF"),
}


@pytest.mark.parametrize("kind", PICTURES)
def test_damaged_pictures(kind: str) -> None:
    whole = PICTURES[kind]()
    assert outcome(SourceSample("x", Location("x"), whole, "a caption"))
    rng = random.Random(f"7 {kind}")
    kept = 0
    for case in range(350):
        data = mutated(whole, rng)
        with limited(f"{kind} {case}"):
            kept += outcome(SourceSample("x", Location("x"), data, "a caption"))
    # The mutations reach both ends: what still reads, and what does not.
    assert 0 < kept < 350


def all_samples(source: Source, path: str) -> int:
    """How many of the file's samples are kept; the count that was told holds."""
    stamps = list(source.stamps([path]))
    found = list(source.samples(stamps))
    assert len(found) == source.num_samples(path)
    assert len({sample.source_key for sample in found}) == len(found)
    return sum(map(outcome, found))


def tar_of_three() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for number, kind in enumerate(("JPEG", "PNG", "WEBP")):
            for name, data in (
                (f"d/{number}.{kind.lower()}", picture(kind)),
                (f"d/{number}.txt", b"a caption"),
            ):
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def test_damaged_tars(folder: Path) -> None:
    whole = tar_of_three()
    rng = random.Random(8)
    source = WebDatasetSource(str(folder / "*.tar"))
    counts = []
    for case in range(500):
        data = whole if case == 0 else mutated(whole, rng)
        if case % 3 == 2:
            # A member's name or size, where a tar does most harm.
            at = rng.choice([n for n in range(0, len(whole), 512) if whole[n : n + 2] == b"d/"])
            name = rng.choice((b"../../evil.jpg", b"/tmp/evil.jpg", b"d/\xff\x00.jpg", b"7" * 99))
            data = whole[:at] + name + whole[at + len(name) :]
        (folder / "x.tar").write_bytes(data)
        with limited(f"tar {case}"):
            counts.append(all_samples(source, "x.tar"))
    assert counts[0] == 3
    assert min(counts) < 3
    assert {path.name for path in folder.iterdir()} == {"x.tar"}


def test_damaged_tables(folder: Path) -> None:
    images = [{"bytes": picture("JPEG"), "path": "a.jpg"} for _ in range(4)]
    table = pa.table({"image": images, "text": ["one", None, "", "\u00e9"]})
    buffer = io.BytesIO()
    pq.write_table(table, buffer, row_group_size=2)
    whole = buffer.getvalue()
    rng = random.Random(9)
    source = HuggingFaceSource(folder)
    counts = []
    for case in range(400):
        data = mutated(whole, rng) if case else whole
        if case % 2:
            # The footer, which everything else hangs on.
            cut = len(whole) - 900
            data = whole[:cut] + mutated(whole[cut:], rng)
        (folder / "train.parquet").write_bytes(data)
        with limited(f"parquet {case}"):
            counts.append(all_samples(source, "train.parquet"))
    assert counts[0] == 2
    assert min(counts) == 0


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_damaged_metadata_files(folder: Path, suffix: str) -> None:
    if suffix == "parquet":
        buffer = io.BytesIO()
        pq.write_table(pa.table({"file_name": ["a.jpg", "../b.jpg"], "text": ["a", "b"]}), buffer)
        whole = buffer.getvalue()
    elif suffix == "csv":
        whole = b'file_name,text\na.jpg,"a, b"\n../b.jpg,c\n'
    else:
        whole = b'{"file_name": "a.jpg", "text": "a"}\n{"file_name": "../b.jpg", "text": "c"}\n'
    rng = random.Random(f"10 {suffix}")
    name = f"metadata.{suffix}"
    for case in range(150):
        (folder / name).write_bytes(mutated(whole, rng) if case else whole)
        with limited(f"{suffix} {case}"):
            try:
                found = captions_of(os.fsencode(folder), name, ("text",))
            except SampleReject:
                continue
        assert all(map(is_safe, found))
        assert case or list(found) == ["a.jpg"]


def test_damaged_recipes(folder: Path) -> None:
    whole = RECIPE.encode()
    rng = random.Random(11)
    path = folder / "set.yaml"
    loaded, refused = 0, []
    for case in range(500):
        path.write_bytes(mutated(whole, rng) if case else whole)
        with limited(f"yaml {case}"):
            try:
                load_recipe(path, base=folder)
                loaded += 1
            except RecipeError as error:
                refused.append(str(error))
    assert loaded
    assert refused
    assert all(str(path) in message for message in refused)
    assert {path.name for path in folder.iterdir()} == {"set.yaml"}
