"""All facts of a plan that is on disk. What needs encoders is left out where they are missing."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow.parquet as pq

from diffprep_assets.bucket.table import note_counts
from diffprep_assets.dataset import Dataset
from diffprep_assets.encoded_shard import finished_rows
from diffprep_assets.partition_worker import PartitionTask
from diffprep_assets.plan_report.facts import (
    BucketFacts,
    CaptionFacts,
    LoadingFacts,
    ModelFacts,
    PlanFacts,
    PlanShape,
    RejectFacts,
    SampleFacts,
)
from diffprep_assets.plan_report.left_over import batches_of_pass
from diffprep_assets.plan_report.sizes import Sizes, disk_facts, row_bytes, to_write
from diffprep_assets.plan_report.table_pass import ShownRow, TablePass, caption_with
from diffprep_assets.plan_report.tokens import better_length, token_facts, token_lengths
from diffprep_assets.rejects import read_rejects, summary_of
from diffprep_assets.shard.worker import finished_tar, shard_task
from diffprep_assets.shard_plan.plan import Bucket, PlannedShard
from diffprep_assets.shard_plan.table import read_head
from diffprep_assets.source_index.table import read_index
from diffprep_assets.stage_inputs import missing_whole_stage, shards_of_plan
from diffprep_resources.errors import ModelError

NAMED_REJECTS = 3
NO_SHARD_IS_MADE = (False, False, False)

Told = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Loading:
    """How a trainer would read: samples in a batch of one rank, ranks, workers of each."""

    batch_size: int
    ranks: int
    workers: int


@dataclass(frozen=True, slots=True)
class Gathered:
    """The facts, with what the probe and the page go on with. `made` says by shard whether its
    latents, text and tar are there; `sizes` is None without encoders."""

    facts: PlanFacts
    shards: Sequence[PlannedShard]
    made: Mapping[str, tuple[bool, bool, bool]]
    sizes: Sizes | None
    chosen: Mapping[Bucket, Sequence[ShownRow]]


def gathered(dataset: Dataset, loading: Loading, *, counted: Told) -> Gathered:
    """The facts of the plan, without a probe; `counted` is told of captions whose tokens were
    counted. Raises StageInputError when there is no plan."""
    layout = dataset.layout
    index = read_index(layout.source_index)
    if index is None:
        raise missing_whole_stage(dataset, "source_index")
    shards = shards_of_plan(dataset)
    tables = [layout.bucket(part) for part in index.parts.parts]
    found = TablePass(tables, samples=sum(shard.num_samples for shard in shards))
    samples = replace(
        _samples(dataset, tables, shards),
        notes=dict(note_counts(tables).most_common()),
        other_files=dict(index.other_files),
    )
    buckets, loaded = _with_loading(found.sums.facts(), shards, loading)
    facts = PlanFacts(
        dataset=dataset.name,
        recipe_hash=dataset.loaded.recipe_hash,
        source=_source(dataset),
        output_dir=str(layout.output_dir),
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
        captions=_captions(found, tables),
    )
    chosen = {bucket: found.chosen[bucket].items for bucket in buckets}
    try:
        return _with_encoders(Gathered(facts, shards, {}, None, chosen), dataset, found, counted)
    except ModelError as error:
        made = {shard.shard: NO_SHARD_IS_MADE for shard in shards}
        return Gathered(replace(facts, models_error=str(error)), shards, made, None, chosen)


def _samples(
    dataset: Dataset, tables: Sequence[Path], shards: Sequence[PlannedShard]
) -> SampleFacts:
    rejects = summary_of(read_rejects(dataset.layout.rejects), named=NAMED_REJECTS)
    splits: Counter[str] = Counter()
    for shard in shards:
        splits[shard.split] += shard.num_samples
    kept = splits.total()
    listed = sum(pq.read_metadata(path).num_rows for path in tables)
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
    image = dataset.recipe.image
    if image.buckets is not None:
        return f"buckets, tiers {', '.join(map(str, image.buckets.tiers))}"
    if image.variable_size:
        return f"variable_size, longest side {image.max_size}"
    how = "cropped to the square" if image.center_crop else "squeezed into the square"
    return f"image_size {image.image_size}, {how}"


def _with_loading(
    buckets: Mapping[Bucket, BucketFacts], shards: Sequence[PlannedShard], loading: Loading
) -> tuple[dict[Bucket, BucketFacts], LoadingFacts]:
    streams = loading.ranks * max(1, loading.workers)
    batches = batches_of_pass(shards, batch_size=loading.batch_size, streams=streams)
    train: Counter[Bucket] = Counter()
    of_bucket: Counter[Bucket] = Counter()
    for shard in shards:
        of_bucket[shard.bucket] += 1
        train[shard.bucket] += shard.num_samples if shard.split == "train" else 0
    result = {
        bucket: replace(
            facts,
            shards=of_bucket[bucket],
            train=train[bucket],
            batches=batches.full[bucket],
            left_over=batches.left_over[bucket],
        )
        for bucket, facts in buckets.items()
    }
    return result, LoadingFacts(
        batch_size=loading.batch_size,
        ranks=loading.ranks,
        workers=loading.workers,
        samples=train.total(),
        batches=batches.full.total(),
        left_over=batches.left_over.total(),
    )


def _captions(found: TablePass, tables: Sequence[Path]) -> CaptionFacts:
    repeats = found.repeats.repeats()
    several = repeats.commonest is not None and repeats.commonest_samples > 1
    return CaptionFacts(
        samples=found.captions.seen,
        empty=found.empty,
        repeated_share=repeats.share,
        most_common=caption_with(tables, repeats.commonest or 0) if several else None,
        most_common_samples=repeats.commonest_samples if several else 0,
        repeats_exact=repeats.exact,
    )


def _with_encoders(before: Gathered, dataset: Dataset, found: TablePass, counted: Told) -> Gathered:
    """Tokens, sizes, disks and models added. Raises ModelError."""
    encoders, shards, facts = dataset.encoders, before.shards, before.facts
    downloads = encoders.download_bytes()
    models = tuple(
        ModelFacts(
            role=role,
            reference=identity.weights.reference,
            kind=identity.weights.kind,
            revision=identity.weights.revision,
            download=downloads[role],
        )
        for role, identity in encoders.identities().items()
    )
    output = dataset.recipe.output
    keeps = output.intermediates == "keep"
    sizes = Sizes(encoders, found.text, facts.samples.kept)
    made = made_already(dataset, shards)
    left = to_write(sizes, shards, made)
    facts = replace(
        facts,
        models=models,
        captions=_with_tokens(facts.captions, dataset, found, counted),
        sizes=sizes.facts(shards, kept=keeps, finalize=output.finalize),
        disks=disk_facts(dataset.layout, left, kept=keeps),
        buckets=_with_work(facts.buckets, shards, made),
    )
    return replace(before, facts=facts, made=made, sizes=sizes)


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
        better_length=better_length(
            lengths["t5"], limit=length, samples=captions.samples, bytes_per_token=per_token
        ),
    )


def made_already(
    dataset: Dataset, shards: Sequence[PlannedShard]
) -> dict[str, tuple[bool, bool, bool]]:
    """By shard, whether its latents, its text and its tar are there and fresh."""
    layout = dataset.layout
    made = {}
    for shard in shards:
        task = shard_task(dataset, shard)
        latents = PartitionTask(task.key, task.num_samples, task.latents_fingerprint)
        text = PartitionTask(task.key, task.num_samples, task.text_fingerprint)
        made[shard.shard] = (
            finished_rows(layout, "encode_latents", latents) is not None,
            finished_rows(layout, "encode_text", text) is not None,
            finished_tar(layout, task) is not None,
        )
    return made


def _with_work(
    buckets: Sequence[BucketFacts],
    shards: Sequence[PlannedShard],
    made: Mapping[str, tuple[bool, bool, bool]],
) -> tuple[BucketFacts, ...]:
    left: Counter[tuple[int, int, int]] = Counter()
    for shard in shards:
        if not made[shard.shard][0]:
            bucket = shard.bucket
            left[bucket.tier, bucket.width, bucket.height] += shard.num_samples
    return tuple(
        replace(facts, to_encode=left[facts.tier, facts.width, facts.height]) for facts in buckets
    )
