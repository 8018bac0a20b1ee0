"""What a run would do to each shard of a plan, and why."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from diffprep_assets.changes import changed_settings, difference
from diffprep_assets.dataset import Dataset
from diffprep_assets.encode_clip.worker import clip_fingerprint
from diffprep_assets.encode_first_frame.worker import first_frame_fingerprint
from diffprep_assets.encode_latents.worker import picture_fingerprint
from diffprep_assets.encode_text.worker import caption_fingerprint
from diffprep_assets.encoded_rows import row_path, whole_record
from diffprep_assets.layout import Layout
from diffprep_assets.recipe.formats import SHARD_STAGE, Format, shard_stages
from diffprep_assets.shard.record import (
    FINGERPRINT_COLUMNS,
    ShardRecord,
    read_record,
    sample_columns,
)
from diffprep_assets.shard_plan.plan import PlannedSample, PlannedShard
from diffprep_assets.stage_state import StageForecast, State
from diffprep_resources.storage.parquet_tables import DamagedTableError
from diffprep_resources.storage.row_file import read_header

# By encode stage: the fingerprint of one sample's row, and how a changed sample is told.
ROWS: dict[str, tuple[Callable[[PlannedSample, dict[str, Any]], str], str, str]] = {
    "encode_latents": (picture_fingerprint, "picture", "edited"),
    "encode_text": (caption_fingerprint, "caption", "changed"),
    "encode_first_frame": (first_frame_fingerprint, "picture", "edited"),
    "encode_clip": (clip_fingerprint, "picture", "edited"),
}
FORMER_SHARDS = 256
Rows = Callable[[], Mapping[str, list[PlannedSample]]]


@dataclass(frozen=True, slots=True)
class ShardReasons:
    """Why shards are not fresh, as far as the stages before them tell: `new` of a shard that has
    nothing yet, `samples` of samples that came, went or changed (fields that `bucket` reads)."""

    new: list[str]
    samples: list[str]


@dataclass(frozen=True, slots=True)
class _Encoded:
    """What a shard's file of a stage was made from: the settings, and each sample's fingerprint."""

    settings: Mapping[str, Any]
    samples: Mapping[int, str]


Found = Callable[[str, str], _Encoded | None]


def forecast_shards(
    dataset: Dataset, shards: Iterable[PlannedShard], *, rows: Rows, reasons: ShardReasons
) -> dict[str, StageForecast]:
    """The forecast of the recipe's stages of shards. `rows` gives the plan's samples by shard, read
    when first needed."""
    stages = {stage: StageForecast() for stage in shard_stages(dataset.recipe)}
    # Samples that were dealt anew name the same few former shards again and again.
    found = lru_cache(FORMER_SHARDS)(partial(_encoded, dataset.layout.of_rows))
    for shard in shards:
        encoded = _add_encoded(dataset, shard, stages, rows=rows, given=reasons, found=found)
        for format in dataset.recipe.output.formats:
            stage = stages[SHARD_STAGE[format]]
            state, why = _finished(dataset, shard, rows=rows, format=format)
            if state != "fresh":
                is_encoded = SHARD_STAGE[format] == "shard" or why == []
                stage.to_encode += shard.num_samples
                why += [reason for reason in encoded if is_encoded and reason not in why]
            stage.add(shard.shard, state, why or reasons.new)
    return stages


def _add_encoded(
    dataset: Dataset,
    shard: PlannedShard,
    stages: dict[str, StageForecast],
    *,
    rows: Rows,
    given: ShardReasons,
    found: Found,
) -> list[str]:
    """The encode stages' forecast of a shard; returns why it is to be encoded."""
    layout, key = dataset.layout.of_rows, shard.shard
    record = None if layout.shard_bad(key).exists() else whole_record(layout, key)
    reasons: list[str] = []
    for stage, fingerprint in dataset.encode_fingerprints(shard).items():
        if _is_fresh(layout, stage, key, fingerprint, record):
            stages[stage].add(key, "fresh")
            continue
        members = rows().get(key, [])
        state, why, to_encode = _why(dataset, stage, members, given=given, found=found)
        stages[stage].add(key, state, why)
        stages[stage].to_encode += to_encode
        reasons += [reason for reason in why if reason not in reasons]
    return reasons


def _finished(
    dataset: Dataset, shard: PlannedShard, *, rows: Rows, format: Format
) -> tuple[State, list[str]]:
    """State of the finished shard in a format, and the reasons that its own file tells."""
    layout, key = dataset.layout.of(format), shard.shard
    record, there = whole_record(layout, key), read_record(layout.shard_record(key))
    is_bad = layout.shard_bad(key).exists()
    wanted = dataset.format_fingerprint(shard, format)
    if record is not None and not is_bad and record.fingerprint == wanted:
        return "fresh", []
    reasons: list[str] = []
    if is_bad:
        reasons.append("found damaged by validate")
    elif there is not None and record is None:
        reasons.append("its file is missing or cut short")
    elif record is not None:
        stage = SHARD_STAGE[format]
        now = dataset.settings_of(stage)
        reasons = changed_settings(record.settings.get(stage, {}), now)
        reasons = reasons or _changed_samples(layout, rows().get(key, []), format=format)
    replaces = there is not None or any(row.former for row in rows().get(key, ()))
    return ("stale" if replaces else "missing"), reasons


def _changed_samples(layout: Layout, rows: list[PlannedSample], *, format: Format) -> list[str]:
    """How the samples of a stored shard differ from the plan's; of a pre-encoded one the encode
    stages tell."""
    if SHARD_STAGE[format] == "shard" or format == "energon_video" or not rows:
        return []
    try:
        ids, captions = sample_columns(
            layout.shard_samples(rows[0].shard or ""), "sample_id", "text_fingerprint"
        )
    except DamagedTableError:
        return ["rows are missing or damaged"]
    before = dict(zip(ids, captions, strict=True))
    now = {row.sample_id: row.sample.caption_digest for row in rows}
    return difference(before, now).words("sample", of="caption") or ["pictures edited"]


def _is_fresh(
    layout: Layout, stage: str, key: str, fingerprint: str, record: ShardRecord | None
) -> bool:
    if record is not None and record.inputs.get(stage) == fingerprint:
        return True
    header = read_header(row_path(layout, stage, key))
    return header is not None and header.metadata["fingerprint"] == fingerprint


def _why(
    dataset: Dataset,
    stage: str,
    rows: list[PlannedSample],
    *,
    given: ShardReasons,
    found: Found,
) -> tuple[State, list[str], int]:
    """State and reasons of a shard that is not fresh, and how many samples want encoding."""
    fingerprint_of, noun, verb = ROWS[stage]
    settings = dataset.encode_settings(stage)
    now = {row.sample_id: fingerprint_of(row, settings) for row in rows}
    before = found(stage, rows[0].shard or "") if rows else None
    known = set(before.samples.values()) if before else set()
    for former in {shard for row in rows for shard in row.former}:
        elsewhere = found(stage, former)
        known |= set(elsewhere.samples.values()) if elsewhere else set()
    to_encode = sum(fingerprint not in known for fingerprint in now.values())
    if before is None:
        return ("stale" if known else "missing"), given.new, to_encode
    reasons = changed_settings(before.settings, settings)
    if not reasons:
        changed = "changed" if given.samples else verb
        reasons = difference(before.samples, now).words("sample", changed=changed, of=noun)
        reasons = given.samples + reasons if reasons else []
    return "stale", reasons or ["rows are missing or damaged"], to_encode


def _encoded(layout: Layout, stage: str, shard: str) -> _Encoded | None:
    """What the shard holds of a stage, in its row file or else in the finished shard."""
    header = read_header(row_path(layout, stage, shard))
    if header is not None:
        pairs = zip(header.metadata["sample_ids"], header.metadata["fingerprints"], strict=True)
        return _Encoded(header.metadata["settings"], dict(pairs))
    record = whole_record(layout, shard)
    if record is None or stage not in record.inputs:
        return None
    column = FINGERPRINT_COLUMNS[stage]
    try:
        ids, fingerprints = sample_columns(layout.shard_samples(shard), "sample_id", column)
    except DamagedTableError:
        # Nothing is taken over from there.
        return None
    samples = dict(zip(ids, fingerprints, strict=True))
    samples |= {
        reject.sample_id: reject.fingerprint for reject in record.rejects if reject.stage == stage
    }
    return _Encoded(record.settings.get(stage, {}), samples)
