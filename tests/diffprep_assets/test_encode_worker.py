"""A shard of drawn clips through every encode stage, with tiny encoders of Wan's classes."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
import yaml
from diffusers.models.autoencoders.autoencoder_kl_wan import AutoencoderKLWan
from diffusers.pipelines.wan.pipeline_wan_i2v import WanImageToVideoPipeline
from PIL import Image

from diffprep_assets.bucket.scan import BucketRules, rows_of
from diffprep_assets.bucket.table import bucket_table
from diffprep_assets.dataset import Dataset
from diffprep_assets.encode_clip.worker import clip_spec
from diffprep_assets.encode_first_frame.worker import first_frame_spec
from diffprep_assets.encode_latents.worker import latents_spec
from diffprep_assets.encode_rejects import left_out
from diffprep_assets.encode_text.worker import empty_caption_tasks, text_spec
from diffprep_assets.encoded_rows import encoded_rows, row_path
from diffprep_assets.encoded_shard import finished_rows
from diffprep_assets.partition_worker import PartitionResult, PartitionTask
from diffprep_assets.recipe.formats import encode_stages
from diffprep_assets.recipe.load import load_recipe
from diffprep_assets.row_fingerprint import row_fingerprint
from diffprep_assets.shard.finished_worker import shard_task
from diffprep_assets.shard_fastvideo.worker import (
    FastVideoWorker,
    fastvideo_spec,
)
from diffprep_assets.shard_plan.candidates import candidate_of
from diffprep_assets.shard_plan.plan import (
    Plan,
    PlannedSample,
    PlannedShard,
    PlanState,
    planned_shards,
)
from diffprep_assets.shard_plan.table import samples_of_shard, write_plan
from diffprep_resources.clips.pixels import read_pixels
from diffprep_resources.compute.base import unheard
from diffprep_resources.demo.clips import DrawnClip, save_clip
from diffprep_resources.demo.wan import build_tiny_wan
from diffprep_resources.encoders.loading import quiet_libraries
from diffprep_resources.errors import ModelError, SourceChangedError
from diffprep_resources.storage.row_file import read_header, row_reader

FRAMES, WIDTH, HEIGHT, TOKENS = 5, 64, 48, 40
CAPTIONS = {
    "a": "a red circle",
    "b": "a &amp;amp; blue  square",
    "c": "a red circle",
    "z": "broken",
}
SPECS = {
    "encode_latents": latents_spec,
    "encode_text": text_spec,
    "encode_first_frame": first_frame_spec,
    "encode_clip": clip_spec,
}
Row = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Encoders, a recipe, and four clips with captions, of which `z` is broken in its middle."""
    folder = tmp_path_factory.mktemp("wan")
    build_tiny_wan(folder / "i2v", workload="i2v")
    (folder / "clips").mkdir()
    for number, (name, caption) in enumerate(CAPTIONS.items()):
        path = folder / "clips" / f"{name}.mp4"
        save_clip(drawn(number), path)
        path.with_suffix(".txt").write_text(caption, "utf-8")
    break_clip(folder / "clips" / "z.mp4")
    return folder


def drawn(number: int) -> DrawnClip:
    return DrawnClip(
        *("", 96, 72, Fraction(16), 8, "circle", "red", "mint"),
        move=("rising", "falling", "moving to the left", "rising")[number],
        turn=180 if number == 1 else 0,
    )


def break_clip(path: Path) -> None:
    """Ones over the frames after the third one stored, but for what says how long they are."""
    with av.open(str(path)) as container:
        later = [(packet.pos or 0, packet.size) for packet in container.demux() if packet.size][3:]
    data = bytearray(path.read_bytes())
    for begin, size in later:
        data[begin + 12 : begin + size] = b"\xff" * (size - 12)
    path.write_bytes(data)


class Work:
    """A dataset whose plan is written, and the workers that encode it."""

    def __init__(self, folder: Path, root: Path, changes: Mapping[str, Any] | None = None) -> None:
        recipe = {
            "source": {"type": "directory", "input_dir": str(folder / "clips")},
            "output": {"output_dir": "out"},
            "model": {"model_path": str(folder / "i2v"), "t5_max_length": TOKENS, "device": "cpu"},
            "video": {
                "workload": "i2v",
                "max_width": WIDTH,
                "max_height": HEIGHT,
                "num_frames": FRAMES,
            },
        }
        root.mkdir(exist_ok=True)
        path = root / "set.yaml"
        path.write_text(yaml.safe_dump(recipe))
        loaded = load_recipe(path, base=root, overrides=changes)
        self.dataset = Dataset(loaded, root / "storage")
        self.layout = self.dataset.layout
        self.plan()

    def plan(self, *, number: int = 0, former: tuple[str, ...] = ()) -> None:
        """One shard of all clips, as `bucket` and `shard_plan` write it."""
        source, rules = self.dataset.source, BucketRules.of(self.dataset.recipe)
        paths = [file.path for file in source.listing().files]
        samples = source.samples(source.stamps(paths))
        rows = [r for s in samples for r in rows_of(s, source=source, rules=rules, stamp="")]
        assert [row.code for row in rows] == [None] * len(rows)
        with bucket_table(self.layout.bucket("p00000"), metadata={}) as table:
            table.add(rows)
        candidates = [candidate_of("p00000", row) for row in rows]
        shard = f"g0-{candidates[0].bucket.name}-{number:06d}"
        planned = tuple(
            PlannedSample(sample_id, "train", shard, candidate, former)
            for sample_id, candidate in enumerate(candidates)
        )
        write_plan(self.layout.shard_plan, Plan(planned, PlanState()), fingerprint="f")
        (self.shard,) = planned_shards(planned)
        self.key = self.shard.shard

    def task(self, stage: str, **changes: Any) -> PartitionTask:
        wanted = self.dataset.encode_fingerprints(self.shard)[stage]
        return PartitionTask(self.key, self.shard.num_samples, wanted, **changes)

    def encode(self, stage: str, *, batch_size: int = 1) -> PartitionResult:
        worker = SPECS[stage](self.dataset, batch_size).build()
        worker.setup("cpu")
        try:
            return worker.process(self.task(stage), unheard)
        finally:
            worker.close()

    def rows(self, stage: str) -> dict[str, Row]:
        """By the clip's name, what the row file holds."""
        planned = samples_of_shard(self.layout.shard_plan, self.key)
        with row_reader(row_path(self.layout, stage, self.key)) as reader:
            return {
                Path(row.sample.source_key).stem: reader.row(number)
                for number, row in enumerate(planned)
            }

    def write_fastvideo(self) -> None:
        worker = FastVideoWorker(fastvideo_spec(self.dataset))
        worker.make(shard_task(self.dataset, self.shard, format="fastvideo"), unheard)


@pytest.fixture(scope="module")
def made(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Work:
    """Every stage encoded; no test changes it."""
    work = Work(folder, tmp_path_factory.mktemp("made"))
    for stage in SPECS:
        work.encode(stage)
    return work


@pytest.fixture
def again(made: Work, folder: Path, tmp_path: Path) -> Callable[..., Work]:
    """Makes a copy of that work, with other settings or another clips' folder."""

    def copied(changes: Mapping[str, Any] | None = None, **own: Any) -> Work:
        shutil.copytree(made.layout.root, tmp_path / "storage", dirs_exist_ok=True)
        return Work(own.get("folder", folder), tmp_path, changes)

    return copied


@pytest.fixture
def own_folder(folder: Path, tmp_path: Path) -> Path:
    """A copy of the clips that the test may change."""
    shutil.copytree(folder, tmp_path / "own")
    return tmp_path / "own"


@pytest.fixture(scope="module")
def direct(folder: Path) -> Iterator[Any]:
    with quiet_libraries():
        yield WanImageToVideoPipeline.from_pretrained(
            folder / "i2v", transformer=None, dtype=torch.float32, local_files_only=True
        )


def pixels_of(work: Work, name: str) -> np.ndarray:
    planned = samples_of_shard(work.layout.shard_plan, work.key)
    (sample,) = (row.sample for row in planned if Path(row.sample.source_key).stem == name)
    assert sample.clip is not None
    path = Path(work.dataset.loaded.input_dir or "") / sample.source_key
    return read_pixels(path, wanted_pts=sample.clip.wanted_pts, width=WIDTH, height=HEIGHT)


def test_rows_are_what_the_models_give_directly(made: Work, direct: Any):
    rows = {stage: made.rows(stage) for stage in SPECS}
    for name in ("a", "b", "c"):
        pixels = pixels_of(made, name)
        assert pixels.shape == (FRAMES, HEIGHT, WIDTH, 3)
        clip = 2 * (torch.from_numpy(pixels).permute(3, 0, 1, 2)[None].float() / 255) - 1
        with torch.no_grad():
            mean = direct.vae.encode(clip).latent_dist.mode()[0]
            text, _ = direct.encode_prompt(
                CAPTIONS[name], do_classifier_free_guidance=False, max_sequence_length=TOKENS
            )
            condition = direct.prepare_latents(
                clip[:, :, 0],
                batch_size=1,
                num_channels_latents=16,
                height=HEIGHT,
                width=WIDTH,
                num_frames=FRAMES,
                dtype=torch.float32,
                generator=torch.Generator(),
            )[1]
            feature = direct.encode_image(Image.fromarray(pixels[0]))[0]
        assert rows["encode_latents"][name]["latents"].equal(mean)
        assert rows["encode_text"][name]["prompt_embeds"].equal(text[0])
        first = rows["encode_first_frame"][name]
        assert first["first_frame_latents"].equal(condition[0, 4:])
        assert first["pil_image"].equal(torch.from_numpy(pixels[0]).permute(2, 0, 1).float())
        assert rows["encode_clip"][name]["clip_feature"].equal(feature)


def test_a_clip_broken_in_its_middle_is_a_reject_of_latents_alone(made: Work):
    made_of = made.dataset.encode_fingerprints(made.shard)
    (reject,) = left_out(made.layout, made.key, made_of).values()
    assert reject["stage"] == "encode_latents"
    assert (reject["code"], reject["source_key"]) == ("unreadable_video", "z.mp4")
    assert " s" in reject["message"]
    assert not made.rows("encode_latents")["z"]["latents"].any()
    assert made.rows("encode_first_frame")["z"]["first_frame_latents"].any()


def test_the_zeros_behind_a_caption_take_no_space_and_its_tokens_are_counted(made: Work):
    rows = made.rows("encode_text")
    lengths = {name: int(row["prompt_length"]) for name, row in rows.items()}
    assert all(1 < length < TOKENS for length in lengths.values())
    for name, row in rows.items():
        assert row["prompt_length"].dtype == torch.int32
        assert row["prompt_embeds"][lengths[name] - 1].any()
        assert not row["prompt_embeds"][lengths[name] :].any()
    header = read_header(row_path(made.layout, "encode_text", made.key))
    assert header is not None
    longest = max(lengths.values())
    assert header.metadata["tokens"] == {
        "t5": {"limit": TOKENS, "truncated": 0, "longest": longest}
    }


def test_the_empty_caption_is_encoded_once(again: Callable[..., Work]):
    work = again()
    (task,) = empty_caption_tasks(work.dataset)
    worker = text_spec(work.dataset, 1).build()
    worker.setup("cpu")
    worker.make(task, unheard)
    assert empty_caption_tasks(work.dataset) == ()
    with row_reader(work.layout.empty_encodings) as reader:
        assert reader.row(0)["prompt_length"].tolist() == [1]


def test_a_caption_that_is_too_long_is_counted_as_cut(again: Callable[..., Work]):
    result = again({"model.t5_max_length": 3}).encode("encode_text")
    assert result.facts["t5_truncated"] == 4
    assert result.facts["captions_encoded"] == 3


def test_what_is_encoded_is_not_encoded_again(again: Callable[..., Work]):
    work = again()
    for stage in SPECS:
        result = work.encode(stage)
        assert result.counts.encoded == 0, stage
        assert result.counts.samples_out == (3 if stage == "encode_latents" else 4)


def test_one_caption_changed_encodes_one_text(again: Callable[..., Work], own_folder: Path):
    (own_folder / "clips" / "c.txt").write_text("a red ring", "utf-8")
    work = again(folder=own_folder)
    result = work.encode("encode_text")
    assert (result.counts.encoded, result.facts["captions_encoded"]) == (1, 1)
    for stage in ("encode_latents", "encode_first_frame", "encode_clip"):
        assert finished_rows(work.layout, stage, work.task(stage)) is not None


def test_other_settings_of_the_vae_encode_no_text_and_no_features(again: Callable[..., Work]):
    work = again({"video.vae_tiling": True})
    finished = {
        stage for stage in SPECS if finished_rows(work.layout, stage, work.task(stage)) is not None
    }
    assert finished == {"encode_text", "encode_clip"}


def test_another_length_encodes_no_features(again: Callable[..., Work]):
    before = again().key
    other = again({"video.num_frames": 1, "video.video_length_tolerance_range": 25})
    other.plan(former=(before,))
    assert other.key != before
    assert other.encode("encode_clip").counts.encoded == 0
    assert other.encode("encode_first_frame").counts.encoded == 4


def test_a_clip_that_changed_since_it_was_looked_at_fails_the_shard(
    again: Callable[..., Work], own_folder: Path
):
    work = again({"video.vae_tiling": True}, folder=own_folder)
    save_clip(replace(drawn(0), colour="blue"), own_folder / "clips" / "a.mp4")
    for stage in ("encode_latents", "encode_first_frame"):
        with pytest.raises(SourceChangedError, match=r"source changed since bucket: a\.mp4"):
            work.encode(stage)
        assert finished_rows(work.layout, stage, work.task(stage)) is None


def test_rows_are_taken_over_out_of_finished_files_when_the_row_files_are_gone(
    again: Callable[..., Work],
):
    work = again()
    before = {stage: work.rows(stage) for stage in SPECS}
    work.write_fastvideo()
    for stage in SPECS:
        row_path(work.layout, stage, work.key).unlink()
        assert finished_rows(work.layout, stage, work.task(stage)) is not None
    made_of = work.dataset.encode_fingerprints(work.shard)
    assert [row["code"] for row in left_out(work.layout, work.key, made_of).values()] == [
        "unreadable_video"
    ]
    work.plan(number=1, former=(work.key,))
    for stage, rows in before.items():
        # The clip that was left out has its text nowhere any more.
        lost = 0 if stage == "encode_latents" else 1
        assert work.encode(stage).counts.encoded == lost, stage
        found = work.rows(stage)
        for name, row in rows.items():
            assert found[name].keys() == row.keys()
            assert all(found[name][key].equal(row[key]) for key in row), (stage, name)


def test_without_an_image_encoder_a_row_has_no_features(
    again: Callable[..., Work], own_folder: Path
):
    index = own_folder / "i2v" / "model_index.json"
    content = json.loads(index.read_text())
    content["image_encoder"] = [None, None]
    index.write_text(json.dumps(content))
    work = again(folder=own_folder)
    assert not work.dataset.identities.keys() & {"clip"}
    result = work.encode("encode_clip")
    assert (result.counts.encoded, result.counts.samples_out) == (0, 4)
    planned = samples_of_shard(work.layout.shard_plan, work.key)
    settings = work.dataset.clip_settings
    wanted = [row_fingerprint("encode_clip", row, settings) for row in planned]
    with encoded_rows(work.layout, "encode_clip", shards=[work.key], wanted=wanted) as rows:
        assert [rows.find(fingerprint) for fingerprint in wanted] == [{}] * 4
    work.write_fastvideo()


def test_memory_that_holds_one_clip_takes_one_at_a_time_and_else_a_setting_is_named(
    again: Callable[..., Work], monkeypatch: pytest.MonkeyPatch
):
    holds, encode = 1, AutoencoderKLWan.encode

    def small(model: AutoencoderKLWan, clips: torch.Tensor, *rest: Any) -> Any:
        if len(clips) > holds:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3 GiB")
        return encode(model, clips, *rest)

    monkeypatch.setattr(AutoencoderKLWan, "encode", small)
    work = again()
    before = work.rows("encode_latents")
    row_path(work.layout, "encode_latents", work.key).unlink()
    assert work.encode("encode_latents", batch_size=4).facts["batch_size"] == 1
    assert work.rows("encode_latents")["a"]["latents"].equal(before["a"]["latents"])
    row_path(work.layout, "encode_latents", work.key).unlink()
    holds = 0
    with pytest.raises(ModelError, match=r"5 frames of 64x48; video\.vae_tiling: true"):
        work.encode("encode_latents", batch_size=2)


def test_the_recipe_has_these_stages(made: Work):
    assert encode_stages(made.dataset.recipe) == tuple(SPECS)
    assert isinstance(made.shard, PlannedShard)
