"""What a run would do now, and why, by comparing files with the recipe. Writes nothing.

Changed pictures are looked at as `bucket` would, as long as they are few, so that the plan and the
shards that a run would make are known exactly.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, islice
from typing import Any

from diffprep_assets.bucket.scan import BucketRules, scanned, stamp_digest
from diffprep_assets.bucket.table import BucketRow, read_metadata
from diffprep_assets.bucket.worker import bucket_fingerprint, bucket_version, known_rows
from diffprep_assets.changes import Difference, changed_settings, difference
from diffprep_assets.dataset import Dataset
from diffprep_assets.download.table import read_fingerprint, read_stamps, stamps_fingerprint
from diffprep_assets.forecast_curation import CurationForecast, forecast_curation
from diffprep_assets.forecast_shards import ShardReasons, forecast_shards
from diffprep_assets.publishing.prepared import (
    last_prepared,
    output_stamps,
    published_fingerprint,
)
from diffprep_assets.recipe.formats import PREPARE_STAGE, Format, prepare_stages, shard_stages
from diffprep_assets.recipe.stage_fields import bucket_fields, published_fields
from diffprep_assets.shard_plan.candidates import CandidateFacts, candidate_of, kept_samples
from diffprep_assets.shard_plan.inputs import plan_fingerprint
from diffprep_assets.shard_plan.plan import (
    Candidate,
    Plan,
    PlannedSample,
    PlannedShard,
    planned_shards,
)
from diffprep_assets.shard_plan.planning import updated_plan
from diffprep_assets.shard_plan.table import read_head, read_plan, read_shards
from diffprep_assets.shard_plan.written import curation_of
from diffprep_assets.source_index.listing import listed_index
from diffprep_assets.source_index.table import SourceIndex, read_index
from diffprep_assets.stage_state import StageForecast, State, state_of
from diffprep_assets.validate.update import format_fingerprint, last_validation
from diffprep_resources.errors import ModelError
from diffprep_resources.sources.base import FileStamp

# As many files as a person waits for; beyond, what follows from them is left open.
FILES_TO_OPEN = 2000


@dataclass(slots=True)
class Forecast:
    """Every stage, in flow order. `unread_files` is not 0 where so many pictures are new or
    changed that the stages of shards are judged by the plan as it is. Without `has_verdicts` they
    are judged by the verdicts of the last run."""

    stages: dict[str, StageForecast] = field(default_factory=dict)
    unread_files: int = 0
    has_verdicts: bool = True


def forecast(dataset: Dataset) -> Forecast:
    """What `diffprep run` would find to do. Raises SettingError when the source is not there."""
    result = Forecast()
    stages = result.stages
    index = listed_index(dataset, may_fetch=False)
    stages["source_index"] = _source_index(dataset, index)
    parts = _Parts(dataset, index)
    stages["download"] = parts.download
    stages["bucket"] = parts.bucket
    curation = forecast_curation(dataset, parts.bucket.states)
    stages |= curation.stages
    result.has_verdicts = curation.is_known
    plan = _Plan(dataset, parts, curation)
    stages["shard_plan"] = plan.stage
    result.unread_files = 0 if plan.is_known else parts.unread_files
    try:
        _ = dataset.identities
    except ModelError as error:
        return _without_encoders(result, dataset, plan.shards, str(error))
    reasons = ShardReasons(new=plan.new_shard_reasons, samples=list(parts.changed_fields))
    stages |= forecast_shards(dataset, plan.shards, rows=plan.rows, reasons=reasons)
    for format, stage in PREPARE_STAGE.items():
        if format in dataset.recipe.output.formats:
            stages[stage] = _prepared(dataset, plan.shards, format)
    stages["validate"] = _validated(dataset, plan.shards)
    return result


def _without_encoders(
    result: Forecast, dataset: Dataset, shards: Iterable[PlannedShard], message: str
) -> Forecast:
    """The stages that hang on encoders which cannot be found: nothing there can be called fresh."""
    reason = f"the encoders cannot be found: {message}"
    for stage in shard_stages(dataset.recipe):
        result.stages[stage] = StageForecast()
        for shard in shards:
            result.stages[stage].add(shard.shard, "missing", [reason])
    for stage in (*prepare_stages(dataset.recipe), "validate"):
        result.stages[stage] = StageForecast()
        result.stages[stage].add(stage, "missing", [reason])
    return result


def _source_index(dataset: Dataset, index: SourceIndex) -> StageForecast:
    old = read_index(dataset.layout.source_index)
    state = state_of(old.fingerprint if old else None, index.fingerprint)
    before = {path: None for paths in (old.paths().values() if old else ()) for path in paths}
    now = {path: None for paths in index.paths().values() for path in paths}
    words = difference(before, now).words("file")
    stage = StageForecast()
    stage.add("source_index", state, words or ["source settings changed"])
    return stage


class _Parts:
    """The stages of parts: what files are new or changed, and the rows `bucket` would make."""

    def __init__(self, dataset: Dataset, index: SourceIndex) -> None:
        self.dataset = dataset
        self.download = StageForecast()
        self.bucket = StageForecast()
        self.unread_files = 0
        self.all_here = True
        # What `bucket` reads otherwise than before, in words, in order.
        self.changed_fields: dict[str, None] = {}
        self.fingerprints: dict[str, str | None] = {}
        self._limits = index.parts.limits
        self._settings = bucket_fields(dataset.recipe)
        self._stamps: dict[str, list[FileStamp]] = {}
        self._known: dict[str, dict[str, list[BucketRow]]] = {}
        for part, paths in index.paths().items():
            self._add(part, list(dataset.source.stamps(paths)), index.revision)

    def _add(self, part: str, stamps: list[FileStamp], revision: str | None) -> None:
        layout = self.dataset.layout
        wanted = stamps_fingerprint(stamps, revision=revision)
        found = read_fingerprint(layout.download(part))
        words: list[str] = []
        if found != wanted:
            now = {stamp.path: stamp_digest(stamp) for stamp in stamps}
            before = read_stamps(layout.download(part)) if found else []
            was = {stamp.path: stamp_digest(stamp) for stamp in before}
            words = difference(was, now).words("file") or ["listed or looked at otherwise"]
        self.download.add(part, state_of(found, wanted), words)
        limit = self._limits.get(part)
        metadata = read_metadata(layout.bucket(part))
        self.fingerprints[part] = made = bucket_fingerprint(self._settings, wanted, limit)
        state = state_of(metadata["fingerprint"] if metadata else None, made)
        settings = changed_settings(metadata["settings"], self._settings) if metadata else []
        if metadata and metadata["limit"] != limit:
            settings.append("output.max_samples changed")
        self.changed_fields |= dict.fromkeys(settings)
        self.bucket.add(part, state, settings + words)
        if state != "fresh":
            self._look_later(part, stamps, limit)
        else:
            self.fingerprints[part] = bucket_version(layout.bucket(part))

    def _look_later(self, part: str, stamps: list[FileStamp], limit: int | None) -> None:
        known = known_rows(
            self.dataset.layout.bucket(part),
            settings=self._settings,
            limit=limit,
            rules=BucketRules.of(self.dataset.recipe),
        )
        unread = sum(
            stamp.path not in known or known[stamp.path][0].stamp != stamp_digest(stamp)
            for stamp in stamps
        )
        self.unread_files += unread
        # Nothing is fetched only to say what a run would do.
        self.all_here = self.all_here and (not unread or self.dataset.source.are_here(stamps))
        self.bucket.to_encode += unread
        self._stamps[part], self._known[part] = stamps, known

    def candidates(self, facts: CandidateFacts) -> Iterator[Candidate]:
        """The samples that `bucket` would keep, in source order, with what is known of them."""
        for part in sorted(self.fingerprints):
            if part not in self._stamps:
                yield from kept_samples([(part, self.dataset.layout.bucket(part))], facts)
                continue
            pictures = scanned(
                self._stamps[part],
                source=self.dataset.source,
                rules=BucketRules.of(self.dataset.recipe),
                known=self._known[part],
            )
            limited = islice(pictures, self._limits.get(part))
            digests = facts.columns_digests(part)
            for row in chain.from_iterable(rows for rows, _ in limited):
                if row.code is None:
                    yield candidate_of(part, row, facts, digests)


class _Plan:
    """The plan that a run would make, or as it is where that is not known."""

    def __init__(self, dataset: Dataset, parts: _Parts, curation: CurationForecast) -> None:
        layout, facts = dataset.layout, curation.facts
        self.stage = StageForecast()
        self.new_shard_reasons = ["never made"]
        head, view = read_head(layout.shard_plan), read_head(layout.shards)
        whole = head is not None and view is not None and view["plan_digest"] == head["digest"]
        wanted = plan_fingerprint(dataset, {**parts.fingerprints, **curation.plan_inputs})
        state = state_of(head["fingerprint"] if head and whole else None, wanted)
        if state == "fresh" and not curation.is_known:
            state = "stale"
        few = parts.all_here and parts.unread_files <= FILES_TO_OPEN
        self.is_known = state == "fresh" or few
        self._read_rows = cache(lambda: _by_shard(read_plan(layout.shard_plan).samples))
        self.shards = read_shards(layout.shards)
        if state == "fresh":
            self.stage.add("shard_plan", state)
            return
        reasons = changed_settings(head["settings"], dataset.plan_fields) if head else []
        if not self.is_known:
            self.stage.add("shard_plan", state, [*reasons, f"{parts.unread_files:,} files to open"])
            return
        old = read_plan(layout.shard_plan)
        verdicts = curation_of(dataset, old, facts.verdicts)
        new = updated_plan(old, parts.candidates(facts), dataset.plan_settings, verdicts)
        self.shards = planned_shards(new.samples)
        rows = _by_shard(new.samples)
        self._read_rows = cache(lambda: rows)
        moved = _moved(old, new) if old.samples else []
        why = dict.fromkeys([*reasons, *parts.changed_fields, *moved])
        before = "bucket" if curation.is_known else "curate"
        self.stage.add("shard_plan", state, why or [f"{before} is to be done again"])
        if old.samples:
            redealt = new.state.generation != old.state.generation
            self.new_shard_reasons = (reasons if redealt else moved) or ["new shard"]

    def rows(self) -> Mapping[str, list[PlannedSample]]:
        """The plan's samples by shard."""
        return self._read_rows()


def _moved(old: Plan, new: Plan) -> list[str]:
    """How the samples of two plans differ, in words."""
    before = {row.sample_id: row.sample for row in old.samples if row.shard}
    now = {row.sample_id: row.sample for row in new.samples if row.shard}

    def pictures(samples: Mapping[int, Candidate]) -> dict[int, Any]:
        return {
            key: (row.image_digest, row.bucket, row.crop, row.clip) for key, row in samples.items()
        }

    def captions(samples: Mapping[int, Candidate]) -> dict[int, str]:
        return {key: row.caption_digest for key, row in samples.items()}

    by_picture = difference(pictures(before), pictures(now))
    by_caption = difference(captions(before), captions(now))
    return [
        *by_picture.words("sample", changed="edited or moved", of="picture"),
        *Difference(changed=by_caption.changed).words("caption"),
    ]


def _by_shard(samples: Iterable[PlannedSample]) -> dict[str, list[PlannedSample]]:
    rows: dict[str, list[PlannedSample]] = {}
    for row in samples:
        if row.shard is not None:
            rows.setdefault(row.shard, []).append(row)
    return rows


def _prepared(dataset: Dataset, shards: list[PlannedShard], format: Format) -> StageForecast:
    stage = StageForecast()
    layout = dataset.layout.of(format)
    last = last_prepared(layout)
    wanted = published_fingerprint(dataset, shards, format=format)
    state = state_of(last["fingerprint"] if last else None, wanted)
    reasons: list[str] = []
    if last is not None:
        now = {shard.shard: dataset.format_fingerprint(shard, format) for shard in shards}
        skips = {shard.shard: shard.skips_digest for shard in shards if shard.num_skipped}
        settings = published_fields(dataset.loaded.resolved, format=format)
        reasons = changed_settings(last["settings"], settings)
        reasons += difference(last["shards"], now).words("shard", changed="rewritten")
        if last.get("skips", {}) != skips:
            reasons.append("other samples are skipped")
        if state == "fresh" and last["files"] != output_stamps(layout):
            state, reasons = "stale", ["files of the output folder changed"]
    stage.add(PREPARE_STAGE[format], state, reasons)
    return stage


def _validated(dataset: Dataset, shards: list[PlannedShard]) -> StageForecast:
    stage = StageForecast()
    was_validated = False
    states: set[State] = set()
    for format in dataset.recipe.output.formats:
        layout = dataset.layout.of(format)
        last = last_validation(layout)
        was_validated = was_validated or last is not None
        wanted = format_fingerprint(dataset, shards, format=format)
        state = state_of(last["fingerprint"] if last else None, wanted)
        if last is not None and last["files"] != output_stamps(layout):
            state = "stale"
        states.add(state)
    state = "fresh" if states == {"fresh"} else "stale" if was_validated else "missing"
    why = ["the output folder is not what was validated"] if was_validated else []
    stage.add("validate", state, why)
    return stage
