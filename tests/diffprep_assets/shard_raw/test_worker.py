"""Raw tars out of a hand-made plan: no encoder, no Dagster, real pictures in a real folder."""

import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash
from PIL import Image

from diffprep_assets.bucket.table import BucketRow, bucket_table
from diffprep_assets.layout import Layout
from diffprep_assets.partition_worker import PartitionResult
from diffprep_assets.shard.finished_worker import ShardTask
from diffprep_assets.shard.record import mark_bad_keys, read_record, read_samples
from diffprep_assets.shard_plan.plan import (
    Bucket,
    Candidate,
    Plan,
    PlannedSample,
    PlannedShard,
    PlanState,
)
from diffprep_assets.shard_plan.table import write_plan
from diffprep_assets.shard_raw.member_pictures import PictureSpec
from diffprep_assets.shard_raw.worker import STAGE, RawSpec
from diffprep_resources.errors import SampleReject, SourceChangedError, StageInputError
from diffprep_resources.pictures.decode import PictureLimits, load_upright
from diffprep_resources.pictures.fit import Crop, fit
from diffprep_resources.pictures.stored import StoredForm
from diffprep_resources.sources.base import Location
from diffprep_resources.sources.directory import DirectorySource
from diffprep_resources.sources.fields import FieldKeys, field_keys
from diffprep_resources.storage.row_file import row_file

SHARD, LATER = "g000-64-64x32-000000", "g001-64-64x32-000001"
BUCKET = Bucket(64, 64, 32)
LIMITS = PictureLimits(max_pixels=1_000_000, min_side=4)
SETTINGS = {"output.image_format": "jpg", "output.image_quality": 95}
CROP = (2, 0, 128, 64)


class CountingSource(DirectorySource):
    """A folder that remembers what was read of it."""

    def __init__(self, folder: Path, *, keys: FieldKeys) -> None:
        super().__init__(str(folder), keys=keys)
        self.read: list[str] = []
        self.passing: set[str] = set()

    def read_image(self, location: Location) -> bytes:
        self.read.append(location.path)
        if location.path in self.passing:
            raise SampleReject("unreadable_image", "not now", transient=True)
        return super().read_image(location)


class Workplace:
    """A folder of pictures with its bucket table and plan, and the raw tars made of them."""

    def __init__(self, folder: Path) -> None:
        self.layout = Layout(folder, "set", folder / "out", "raw")
        self.pictures = folder / "pictures"
        self.pictures.mkdir()
        keys = field_keys(image_key=None, caption_key=None, image_keys=None, caption_keys=None)
        self.source = CountingSource(self.pictures, keys=keys)
        self.captions: dict[int, str] = {}
        self.files: dict[int, str] = {}
        self.former: dict[int, tuple[str, ...]] = {}

    def add(self, number: int, *, of: int | None = None) -> None:
        """Sample `number` of a picture of its own, or of that of sample `of`."""
        self.captions[number] = f"caption {number} \u00e9"
        self.files[number] = self.files[of] if of is not None else f"{number}.png"
        if of is None:
            small = np.random.default_rng(number).integers(0, 256, (4, 8, 3), dtype=np.uint8)
            image = Image.fromarray(small).resize((132, 64), Image.Resampling.BICUBIC)
            image.save(self.pictures / f"{number}.png")

    def plan(self, shard: str = SHARD) -> PlannedShard:
        """Bucket table and plan of all samples, in the shard."""
        rows, samples = [], []
        for number, caption in self.captions.items():
            data = (self.pictures / self.files[number]).read_bytes()
            left, top, width, height = CROP
            row = BucketRow(
                source_key=f"{number}.png",
                path=self.files[number],
                stamp="",
                caption=caption,
                caption_digest=digest(caption.encode()),
                original_width=132,
                original_height=64,
                tier=BUCKET.tier,
                width=BUCKET.width,
                height=BUCKET.height,
                crop_left=left,
                crop_top=top,
                crop_width=width,
                crop_height=height,
                group=self.files[number],
                image_digest=digest(data),
            )
            rows.append(row)
            candidate = Candidate(
                f"{number}.png",
                row.group,
                "p00000",
                digest(data),
                digest(caption.encode()),
                BUCKET,
                CROP,
            )
            former = self.former.get(number, ())
            samples.append(PlannedSample(number, "train", shard, candidate, former))
        with bucket_table(self.layout.bucket("p00000"), metadata={}) as table:
            table.add(rows)
        plan = Plan(tuple(sorted(samples, key=lambda row: row.sample_id)), PlanState())
        write_plan(self.layout.shard_plan, plan, fingerprint="f")
        self.planned = {row.sample_id: row for row in plan.samples}
        return PlannedShard(
            shard=shard,
            bucket=BUCKET,
            number=0,
            split="train",
            num_samples=len(samples),
            pictures_digest="p",
            captions_digest="c",
            members_digest="m",
        )

    def spec(self, settings: dict[str, Any]) -> RawSpec:
        kind = settings["output.image_format"]
        form = StoredForm(kind, 95)
        pictures = PictureSpec(STAGE, kind, self.source, form, LIMITS, "#ffffff")
        return RawSpec(self.layout, settings, pictures)

    def make(
        self,
        *,
        fingerprint: str = "one",
        settings: dict[str, Any] = SETTINGS,
        shard: str = SHARD,
        encoded: Mapping[str, str] | None = None,
        retry_rejects: bool = False,
    ) -> PartitionResult:
        """The result of writing the planned shard; what was read of the source is told anew."""
        self.source.read.clear()
        planned = self.plan(shard)
        spec = self.spec(settings)
        wanted = ShardTask(
            key=planned.shard,
            num_samples=planned.num_samples,
            fingerprint=fingerprint,
            planned=planned,
            encoded=encoded or {},
            retry_rejects=retry_rejects,
        )
        return spec.build().process(wanted, lambda *_: None)

    def samples(self, shard: str = SHARD) -> dict[str, dict[str, bytes]]:
        """Members of the tar's samples, by key."""
        found: dict[str, dict[str, bytes]] = {}
        with tarfile.open(self.layout.shard_file(shard)) as tar:
            for member in tar:
                key, name = member.name.split(".", 1)
                file = tar.extractfile(member)
                assert file is not None
                found.setdefault(key, {})[name] = file.read()
        return found


def digest(data: bytes) -> str:
    return xxhash.xxh3_128_hexdigest(data)


def encode_rows(layout: Layout, *, fingerprint: str, rejects: Sequence[int]) -> None:
    """A row file of the latents of SHARD that left samples out."""
    metadata = {"fingerprint": fingerprint, "sample_ids": [], "fingerprints": [], "settings": {}}
    left_out = [
        {
            "sample_id": number,
            "source_key": f"{number}.png",
            "stage": "encode_latents",
            "code": "not_finite",
            "message": "said the VAE",
            "transient": False,
            "fingerprint": "e",
        }
        for number in rejects
    ]
    rows = {"latents": ("float32", (1,))}
    with row_file(layout.latents(SHARD), rows=rows, num_rows=1, metadata=metadata) as file:
        file.close(rejects=left_out)


@pytest.fixture
def workplace(tmp_path: Path) -> Workplace:
    place = Workplace(tmp_path)
    for number in range(3):
        place.add(number)
    return place


def test_a_sample_is_its_picture_at_the_buckets_size_its_caption_and_its_metadata(
    workplace: Workplace,
) -> None:
    result = workplace.make()
    assert (result.counts.samples_in, result.counts.samples_out, result.counts.encoded) == (3, 3, 3)
    samples = workplace.samples()
    assert list(samples) == [f"{number:010d}" for number in range(3)]
    for number, members in enumerate(samples.values()):
        assert list(members) == ["jpg", "txt", "json"]
        assert members["txt"].decode() == f"caption {number} \u00e9"
        metadata = json.loads(members["json"])
        assert (metadata["width"], metadata["height"], metadata["crop_left"]) == (64, 32, 2)
        source = (workplace.pictures / f"{number}.png").read_bytes()
        wanted = fit(
            load_upright(source, limits=LIMITS, background="#ffffff"),
            crop=Crop(*CROP),
            width=64,
            height=32,
        )
        got = np.asarray(Image.open(io.BytesIO(members["jpg"]))).astype(float)
        assert 10 * np.log10(255**2 / np.mean((got - wanted) ** 2)) >= 35


def test_one_changed_caption_reads_no_picture_again(workplace: Workplace) -> None:
    workplace.make()
    before = workplace.samples()
    workplace.captions[1] = "another"
    result = workplace.make(fingerprint="two")
    after = workplace.samples()
    assert workplace.source.read == []
    assert (result.counts.encoded, result.counts.reused) == (0, 3)
    assert after["0000000001"]["txt"] == b"another"
    assert {key: members["jpg"] for key, members in after.items()} == {
        key: members["jpg"] for key, members in before.items()
    }


def test_a_fresh_shard_is_left_alone_and_equal_input_gives_equal_bytes(
    workplace: Workplace,
) -> None:
    workplace.make()
    path = workplace.layout.shard_file(SHARD)
    first, data = path.stat(), path.read_bytes()
    assert workplace.make().counts.encoded == 0
    assert path.stat().st_mtime_ns == first.st_mtime_ns
    path.unlink()
    workplace.make()
    assert path.read_bytes() == data


def test_another_quality_or_format_is_stored_anew(workplace: Workplace) -> None:
    workplace.make()
    webp = {"output.image_format": "webp", "output.image_quality": 95}
    assert workplace.make(fingerprint="two", settings=webp).counts.encoded == 3
    assert {name for members in workplace.samples().values() for name in members} == {
        "webp",
        "txt",
        "json",
    }


def test_pictures_move_with_their_samples_into_a_shard_of_another_generation(
    workplace: Workplace,
) -> None:
    workplace.make()
    before = {key: members["jpg"] for key, members in workplace.samples().items()}
    workplace.former = dict.fromkeys(range(3), (SHARD,))
    result = workplace.make(shard=LATER, fingerprint="two")
    assert workplace.source.read == []
    assert result.counts.reused == 3
    assert {key: members["jpg"] for key, members in workplace.samples(LATER).items()} == before


@pytest.mark.parametrize("how", ["flipped byte", "marked bad"])
def test_a_damaged_picture_is_read_again_and_no_other(workplace: Workplace, how: str) -> None:
    workplace.make()
    row = read_samples(workplace.layout.shard_samples(SHARD))[1]
    if how == "flipped byte":
        with workplace.layout.shard_file(SHARD).open("r+b") as file:
            file.seek(row.parts[0].offset + 40)
            file.write(b"\0")
    else:
        mark_bad_keys(workplace.layout.shard_bad(SHARD), [row.key])
    good = workplace.make(fingerprint="two" if how == "flipped byte" else "one")
    assert workplace.source.read == ["1.png"]
    assert (good.counts.encoded, good.counts.reused) == (1, 2)


def test_a_picture_with_two_captions_is_read_once(workplace: Workplace) -> None:
    workplace.add(3, of=2)
    workplace.make()
    assert workplace.source.read.count("2.png") == 1
    samples = workplace.samples()
    assert samples["0000000002"]["jpg"] == samples["0000000003"]["jpg"]
    assert samples["0000000002"]["txt"] != samples["0000000003"]["txt"]


def test_whom_encoding_left_out_is_left_out_for_the_same_reason(workplace: Workplace) -> None:
    encode_rows(workplace.layout, fingerprint="latents", rejects=[1])
    result = workplace.make(encoded={"encode_latents": "latents"})
    assert list(workplace.samples()) == ["0000000000", "0000000002"]
    assert (result.counts.samples_out, result.counts.rejects) == (2, {"not_finite": 1})
    record = read_record(workplace.layout.shard_record(SHARD))
    assert record is not None
    reject = record.rejects[0]
    assert (reject.sample_id, reject.stage, reject.message) == (1, "encode_latents", "said the VAE")


def test_rows_of_other_settings_do_not_say_who_is_left_out(workplace: Workplace) -> None:
    encode_rows(workplace.layout, fingerprint="other", rejects=[])
    with pytest.raises(StageInputError, match="encode_latents is stale"):
        workplace.make(encoded={"encode_latents": "latents"})
    with pytest.raises(StageInputError, match="encode_text is missing"):
        workplace.make(encoded={"encode_text": "text"})


def test_a_picture_that_cannot_be_decoded_is_a_reject_and_stays_one(workplace: Workplace) -> None:
    jpeg = io.BytesIO()
    Image.new("RGB", (132, 64), "red").save(jpeg, "JPEG")
    (workplace.pictures / "1.png").write_bytes(jpeg.getvalue()[:-200])
    result = workplace.make()
    assert result.counts.rejects == {"unreadable_image": 1}
    record = read_record(workplace.layout.shard_record(SHARD))
    assert record is not None
    assert record.num_samples + len(record.rejects) == 3
    workplace.captions[0] = "another"
    assert workplace.make(fingerprint="two").counts.rejects == {"unreadable_image": 1}
    assert workplace.source.read == []


def test_a_passing_reject_is_tried_again_only_when_asked(workplace: Workplace) -> None:
    workplace.source.passing = {"1.png"}
    assert workplace.make().counts.rejects == {"unreadable_image": 1}
    workplace.source.passing.clear()
    assert workplace.make().counts.rejects == {"unreadable_image": 1}
    result = workplace.make(retry_rejects=True)
    assert workplace.source.read == ["1.png"]
    assert (result.counts.encoded, result.counts.reused, result.counts.rejects) == (1, 2, {})


def test_other_bytes_than_bucket_saw_fail_the_shard_and_the_old_one_stays(
    workplace: Workplace,
) -> None:
    workplace.make()
    before = workplace.layout.shard_file(SHARD).read_bytes()
    planned = workplace.plan()
    (workplace.pictures / "2.png").write_bytes((workplace.pictures / "1.png").read_bytes())
    spec = workplace.spec({"output.image_format": "png"})
    task = ShardTask(planned.shard, 3, "two", planned, {})
    with pytest.raises(SourceChangedError, match=r"source changed since bucket: 2\.png"):
        spec.build().process(task, lambda *_: None)
    assert workplace.layout.shard_file(SHARD).read_bytes() == before


def test_the_rows_carry_what_pictures_and_captions_were_made_from(workplace: Workplace) -> None:
    workplace.make()
    for row in read_samples(workplace.layout.shard_samples(SHARD)):
        planned = workplace.planned[row.sample_id]
        pictures = workplace.spec(SETTINGS).pictures
        assert row.latents_fingerprint == pictures.fingerprint(planned)
        assert row.text_fingerprint == planned.sample.caption_digest
