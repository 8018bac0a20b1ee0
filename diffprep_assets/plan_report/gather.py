"""All facts of a plan that is on disk. What needs encoders is left out where they are missing."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow.parquet as pq

from diffprep_assets.bucket.table import note_counts
from diffprep_assets.dataset import Dataset
from diffprep_assets.plan_report.clip_sizes import ClipSizes
from diffprep_assets.plan_report.clips import clip_facts
from diffprep_assets.plan_report.curation import LeftOut, left_out, verdict_facts
from diffprep_assets.plan_report.facts import (
    BucketFacts,
    CaptionFacts,
    ClipFacts,
    ModelFacts,
    PlanFacts,
    PlanShape,
    RejectFacts,
    SampleFacts,
)
from diffprep_assets.plan_report.kept_rows import ShownRow
from diffprep_assets.plan_report.loading import Loading, with_loading
from diffprep_assets.plan_report.sizes import Sizes, disk_facts, keeps_rows, row_bytes, to_write
from diffprep_assets.plan_report.stored_sizes import picture_sizes
from diffprep_assets.plan_report.table_pass import TablePass, caption_with
from diffprep_assets.plan_report.tokens import better_length, token_facts, token_lengths
from diffprep_assets.plan_report.work import Made, finished_stages, made_already
from diffprep_assets.recipe.formats import encode_stages, needs_text
from diffprep_assets.rejects import read_rejects, summary_of
from diffprep_assets.shard_plan.plan import Bucket, PlannedShard
from diffprep_assets.shard_plan.skipped import skip_sizes, skipped_by_shard
from diffprep_assets.shard_plan.table import mixed_in_plan, read_head
from diffprep_assets.source_index.table import read_index
from diffprep_assets.stage_inputs import missing_whole_stage, shards_of_plan
from diffprep_resources.errors import ModelError

NAMED_REJECTS = 3

Told = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Gathered:
    """The facts, with what the probe and the page go on with. `shards` count only the samples that
    are not left out; `sizes` is None where encoders are needed and cannot be had."""

    facts: PlanFacts
    shards: Sequence[PlannedShard]
    made: Made
    sizes: Sizes | None
    chosen: Mapping[Bucket, Sequence[ShownRow]]


def gathered(dataset: Dataset, loading: Loading, *, counted: Told) -> Gathered:
    """The facts of the plan, without a probe; `counted` is told of captions whose tokens were
    counted. Raises StageInputError when there is no plan."""
    layout = dataset.layout
    index = read_index(layout.source_index)
    if index is None:
        raise missing_whole_stage(dataset, "source_index")
    without = left_out(layout.rejects)
    shards = _held(dataset, without)
    tables = [layout.bucket(part) for part in index.parts.parts]
    found = TablePass(tables, samples=sum(shard.num_samples for shard in shards), without=without)
    samples = replace(
        _samples(dataset, tables, shards),
        notes=dict(note_counts(tables).most_common()),
        other_files=dict(index.other_files),
    )
    buckets, loaded = with_loading(dataset, found.sums.facts(), shards, loading)
    facts = PlanFacts(
        dataset=dataset.name,
        recipe_hash=dataset.loaded.recipe_hash,
        source=_source(dataset),
        output_dir=str(layout.output_dir),
        formats=dataset.recipe.output.formats,
        sizing=_sizing(dataset),
        val_share=float(dataset.recipe.output.shares.val),
        samples=samples,
        buckets=tuple(buckets.values()),
        shape=PlanShape(
            parts=len(tables),
            shards=len(shards),
            train_shards=sum(shard.split == "train" for shard in shards),
            generation=(read_head(layout.shard_plan) or {})["state"]["generation"],
        ),
        loading=loaded,
        captions=_captions(found, tables, without),
        skips=skip_sizes(dataset, shards),
        clips=_clips(dataset, found, tables),
        mixed=mixed_in_plan(layout.shard_plan),
    )
    chosen = {bucket: found.chosen[bucket].items for bucket in buckets}
    nothing: Made = {shard.shard: frozenset() for shard in shards}
    before = Gathered(facts, shards, nothing, None, chosen)
    try:
        return _with_outputs(before, dataset, found, counted)
    except ModelError as error:
        return replace(before, facts=replace(facts, models_error=str(error)))


def _held(dataset: Dataset, without: LeftOut) -> list[PlannedShard]:
    """The plan's shards with as many samples, and skipped ones, as they hold or are to hold."""
    skipped = skipped_by_shard(dataset.layout)
    return [
        replace(
            shard,
            num_samples=shard.num_samples - without.members.get(shard.shard, 0),
            num_skipped=len(skipped.get(shard.shard, ())),
        )
        for shard in shards_of_plan(dataset)
    ]


def _samples(
    dataset: Dataset, tables: Sequence[Path], shards: Sequence[PlannedShard]
) -> SampleFacts:
    rejects = summary_of(read_rejects(dataset.layout.rejects), named=NAMED_REJECTS)
    splits: Counter[str] = Counter()
    for shard in shards:
        splits[shard.split] += shard.num_samples
    kept = splits.total()
    listed = sum(pq.read_metadata(path).num_rows for path in tables)
    verdicts = verdict_facts(dataset.layout, named=NAMED_REJECTS)
    return SampleFacts(
        listed=listed,
        kept=kept,
        rejected=listed - kept,
        rejects={
            code: RejectFacts(
                count,
                tuple(
                    {"source_key": reject.source_key, "message": reject.message}
                    for reject in rejects.first[code]
                ),
            )
            for code, count in rejects.counts.most_common()
        },
        splits={split: splits[split] for split in ("train", "val", "test")},
        skipped=sum(shard.num_skipped for shard in shards),
        verdicts=verdicts,
    )


def _source(dataset: Dataset) -> str:
    loaded, source = dataset.loaded, dataset.recipe.source
    place = {
        "directory": loaded.input_dir,
        "webdataset": loaded.input_path,
        "huggingface": loaded.hf_dataset,
    }[source.type]
    return f"{source.type} {place}"


def _sizing(dataset: Dataset) -> str:
    image, video = dataset.recipe.image, dataset.recipe.video
    if video is not None:
        sizes = ", ".join(f"{width}x{height}" for width, height in video.sizes)
        frames = ", ".join(map(str, video.frame_counts))
        fps = f"{float(video.train_fps):g} fps"
        return f"clips for {video.workload} of {sizes}; {frames} frames at {fps}"
    if image.buckets is not None:
        buckets = image.buckets
        tiers = ", ".join(map(str, buckets.tiers))
        if buckets.shapes is not None:
            return f"buckets, a table of {len(buckets.shapes)} shapes in tiers {tiers}"
        patch = "" if buckets.patch == 16 else f", {buckets.patch} patches along a side"
        return f"buckets, tiers {tiers}{patch}"
    if image.variable_size:
        return f"variable_size, longest side {image.max_size}"
    how = "cropped to the square" if image.center_crop else "squeezed into the square"
    return f"image_size {image.image_size}, {how}"


def _captions(found: TablePass, tables: Sequence[Path], without: LeftOut) -> CaptionFacts:
    repeats = found.repeats.repeats()
    several = repeats.commonest is not None and repeats.commonest_samples > 1
    most_common = caption_with(tables, repeats.commonest or 0, without=without) if several else None
    return CaptionFacts(
        samples=found.captions.seen,
        empty=found.empty,
        repeated_share=repeats.share,
        most_common=most_common,
        most_common_samples=repeats.commonest_samples if several else 0,
        repeats_exact=repeats.exact,
    )


def _with_outputs(before: Gathered, dataset: Dataset, found: TablePass, counted: Told) -> Gathered:
    """Sizes, disks and what is made added, and tokens and models where there are encoders. Raises
    ModelError."""
    recipe, shards, facts = dataset.recipe, before.shards, before.facts
    captions = facts.captions
    if needs_text(recipe):
        captions = _with_tokens(captions, dataset, found, counted)
    sizes = _sizes(before, dataset, found, captions)
    made = made_already(dataset, shards)
    left = to_write(sizes, shards, made)
    facts = replace(
        facts,
        models=_models(dataset),
        captions=captions,
        sizes=sizes.facts(shards, layout=dataset.layout),
        disks=disk_facts(dataset.layout, left, kept=keeps_rows(recipe)),
        buckets=_with_work(facts.buckets, shards, made, finished_stages(recipe)),
    )
    return replace(before, facts=facts, made=made, sizes=sizes)


def _sizes(before: Gathered, dataset: Dataset, found: TablePass, captions: CaptionFacts) -> Sizes:
    recipe, kept = dataset.recipe, before.facts.samples.kept
    if recipe.video is not None:
        tokens = captions.tokens["t5"]
        usual = min(tokens.limit, tokens.median)
        return ClipSizes(recipe, dataset.encoders, found.text, kept, {}, tokens=usual)
    encoders = dataset.encoders if encode_stages(recipe) else None
    return Sizes(recipe, encoders, found.text, kept, picture_sizes(dataset, before.chosen))


def _clips(dataset: Dataset, found: TablePass, tables: Sequence[Path]) -> ClipFacts | None:
    video = dataset.recipe.video
    return video and clip_facts(tables, frames=found.frames, video=video)


def _models(dataset: Dataset) -> tuple[ModelFacts, ...]:
    """The encoders that the recipe's formats need. Raises ModelError."""
    identities = dataset.identities
    downloads: dict[str, int] = {**dataset.encoders.download_bytes()} if identities else {}
    return tuple(
        ModelFacts(
            role=role,
            reference=identity.weights.reference,
            kind=identity.weights.kind,
            revision=identity.weights.revision,
            download=downloads[role],
        )
        for role, identity in identities.items()
    )


def _with_tokens(
    captions: CaptionFacts, dataset: Dataset, found: TablePass, counted: Told
) -> CaptionFacts:
    counter = dataset.encoders.token_counter()
    lengths = token_lengths(found.captions.items, counter, report=counted)
    layout = dataset.encoders.text_layout()
    length, *width = layout["prompt_embeds"][1]
    per_token = row_bytes({"prompt_embeds": (layout["prompt_embeds"][0], (1, *width))})
    return replace(
        captions,
        counted=len(lengths["t5"]),
        tokens=token_facts(lengths, dict(counter.token_limits.items())),
        # FastVideo's files hold no padding that a shorter length would save.
        better_length=None
        if dataset.recipe.video is not None
        else better_length(
            lengths["t5"], limit=length, samples=captions.samples, bytes_per_token=per_token
        ),
    )


def _with_work(
    buckets: Sequence[BucketFacts],
    shards: Sequence[PlannedShard],
    made: Made,
    finished: frozenset[str],
) -> tuple[BucketFacts, ...]:
    left: Counter[Bucket] = Counter()
    for shard in shards:
        if not made[shard.shard] >= finished:
            left[shard.bucket] += shard.num_samples
    return tuple(replace(facts, to_encode=left[facts.bucket]) for facts in buckets)
