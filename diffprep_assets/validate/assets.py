"""validate: can a trainer read all that was published? Each question is a blocking check."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from diffprep_assets.dataset import Dataset
from diffprep_assets.dataset_locks import StepLocks
from diffprep_assets.partitions import mark_run, stage_key, whole_stage
from diffprep_assets.recipe.formats import Format, prepare_stages
from diffprep_assets.validate.agreement import NAME as AGREEMENT_NAME
from diffprep_assets.validate.report import Check
from diffprep_assets.validate.update import check_name, validate_published
from diffprep_resources.progress.base import Progress, SampleCounts

ENERGON = {
    "metadata": "The files of .nv-meta are there and sound.",
    "sample_counts": "Every shard holds the samples that the index names.",
    "provenance": "dataset.json agrees with the shards.",
    "loader": "A pass through energon's own loader yields every sample, and no skipped one.",
}
CHECKS: dict[Format, dict[str, str]] = {
    "energon": {
        **ENERGON,
        "tensors": "Tensors are finite, of one shape and dtype, not constant, with even sides.",
        "empty_encodings": "The empty caption's encodings fit the samples' shapes.",
    },
    "energon_video": {
        **ENERGON,
        "tensors": "Tensors are finite, of one dtype, not constant, and their shapes agree.",
    },
    "fastvideo": {
        "metadata": "The files are those that dataset.json lists; validation.json can be read.",
        "sample_counts": "Every file is as it was written, in FastVideo's columns, no id twice.",
        "rows": "Tensors have the bytes of their shapes, are finite, and stack to batches.",
        "loader": "A pass through `datasets` yields every row.",
        "provenance": "dataset.json agrees with the files.",
        "plan": "The rows are the plan's samples and captions, less what is rejected or skipped.",
    },
    "raw": {**ENERGON, "pictures": "Pictures decode, of their bucket's size, captions are text."},
    "mds": {
        "metadata": "Every folder's index names just the shards that lie there.",
        "sample_counts": "Every shard is as it was written, and every sample can be taken apart.",
        "pictures": "Pictures decode, of their bucket's size; latents are finite.",
        "skip_lists": "Skip lists fit their shards, and skip what dataset.json says.",
        "provenance": "dataset.json agrees with the shards.",
    },
}
AGREEMENT = "Every format holds the samples and captions of the plan."


def validate_asset(dataset: Dataset, *, wait_minutes: float) -> dg.AssetsDefinition:
    """The asset of the validation of all that is published."""
    key = stage_key(dataset.name, "validate")
    described = checks_of(dataset)
    specs = [
        dg.AssetCheckSpec(name, asset=key, blocking=True, description=description)
        for name, description in described.items()
    ]
    reads = prepare_stages(dataset.recipe)

    @whole_stage(dataset.name, "validate", reads=reads, kind="json", check_specs=specs)
    def validate(
        context: dg.AssetExecutionContext, progress: dg.ResourceParam[Progress]
    ) -> Iterator[Any]:
        """What the last passed validation covered."""
        log = context.log.info
        mark_run(context, dataset.loaded.recipe_hash)
        locks = StepLocks(dataset.layout, "validate", context.run.run_id, wait_minutes, log)
        with (
            locks.together(),
            progress.stage("validate", log=log) as shown,
        ):
            validated = validate_published(dataset, report=shown.advance)
            samples = validated.samples
            shown.summary.samples = SampleCounts(samples, samples, reused=samples)
        shown.tell(f"validate: {validated.words}")
        yield dg.MaterializeResult(
            data_version=dg.DataVersion(validated.fingerprint),
            metadata={
                **validated.facts,
                "seconds": round(shown.summary.seconds, 3),
                "recipe_hash": dataset.loaded.recipe_hash,
            },
            check_results=[_check_result(name, validated.checks.get(name)) for name in described],
        )

    return validate


def checks_of(dataset: Dataset) -> dict[str, str]:
    """The checks of every format of the recipe, by name, and what each asks."""
    formats = dataset.recipe.output.formats
    described = {
        check_name(format, name): words
        for format in formats
        for name, words in CHECKS[format].items()
    }
    return described | ({AGREEMENT_NAME: AGREEMENT} if len(formats) > 1 else {})


def _check_result(name: str, check: Check | None) -> dg.AssetCheckResult:
    if check is None:
        return dg.AssetCheckResult(
            passed=True, check_name=name, description="does not apply to this dataset"
        )
    failures = [str(failure) for failure in check.failures]
    more = f"; and {len(failures) - 3} more" if len(failures) > 3 else ""
    described = "; ".join(failures[:3]) + more if failures else check.message
    return dg.AssetCheckResult(
        passed=check.passed,
        check_name=name,
        description=described,
        metadata={"failures": failures[:100], "message": check.message},
    )
