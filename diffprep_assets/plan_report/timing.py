"""The probe of a plan: run on the device that the run would take, turned into times."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import get_args

from diffprep_assets.dataset import Dataset
from diffprep_assets.encode_clip.worker import clip_spec
from diffprep_assets.encode_first_frame.worker import first_frame_spec
from diffprep_assets.encode_latents.worker import latents_spec
from diffprep_assets.encode_text.worker import text_spec
from diffprep_assets.plan_report.facts import ProbeFacts, StageTime
from diffprep_assets.plan_report.gather import Gathered
from diffprep_assets.plan_report.probe import ProbedStage, ProbeSpec, StageProbe, StageSpec
from diffprep_assets.plan_report.times import Estimate, probe_tasks, probed
from diffprep_assets.plan_report.work import finished_stages
from diffprep_assets.quantities import bytes_text
from diffprep_assets.recipe.formats import (
    SHARD_STAGE,
    encode_stages,
    shard_stages,
    stages_of,
)
from diffprep_resources.compute.base import ComputeEngine
from diffprep_resources.compute.engines import Engines, Load
from diffprep_resources.compute.inline import InlineEngine
from diffprep_resources.compute.local import LocalEngine
from diffprep_resources.encoders.base import EncoderRole

PROBED = frozenset(get_args(ProbedStage))
"""The stages that are timed by batches, in a process of their own."""


def timed(
    plan: Gathered,
    dataset: Dataset,
    engines: Engines,
    *,
    device: str | None,
    wanted: bool | None,
    told: Callable[[int], None],
) -> ProbeFacts:
    """What a probe finds, or why there is none. `wanted` None: only where all weights are here;
    `told` hears of each of the stages that it times."""
    skipped = _skipped(plan, dataset, wanted)
    if skipped is not None or plan.sizes is None:
        return ProbeFacts(skipped=skipped)
    stored = _stored_times(plan, dataset, engines)
    if not encode_stages(dataset.recipe):
        return ProbeFacts(stages=stored)
    encoded = _encoded_times(plan, dataset, engines, device=device, told=told)
    times = {**encoded.stages, **stored}
    in_order = [stage for stage in stages_of(dataset.recipe) if stage in times]
    return replace(encoded, stages={stage: times[stage] for stage in in_order})


def _encoded_times(
    plan: Gathered,
    dataset: Dataset,
    engines: Engines,
    *,
    device: str | None,
    told: Callable[[int], None],
) -> ProbeFacts:
    """Of the encode stages, and of the tars that hold what they make."""
    dataset.encoders.fetch()
    wanted_device = device or dataset.loaded.execution.device
    stages = shard_stages(dataset.recipe)
    loads, tasks = _loads(plan, dataset), probe_tasks(plan.shards, stages=stages)
    # The device stays leased while the probe runs on it.
    with engines.device(loads[tasks[0].key], device=wanted_device) as engine:
        used, workers = _devices(engine)[0], {tasks[0].key: len(_devices(engine))}
        found, failed = probed(probe_spec(dataset), tasks, device=used, told=told)
    for stage in found:
        if stage == "shard":
            workers[stage] = _cpu_workers(engines, loads[stage])
        elif stage not in workers:
            with engines.device(loads[stage], device=wanted_device) as engine:
                workers[stage] = len(_devices(engine))
    encoding = [probe for probe in found.values() if probe.batch_size]
    return ProbeFacts(
        device=used,
        batch_size=dataset.loaded.execution.batch_size,
        batch_size_held=min((probe.batch_size for probe in encoding), default=None),
        stages=_times(plan, dataset, found, workers),
        peak_memory=max((probe.peak_memory for probe in found.values()), default=None),
        memory_total=next((probe.memory_total for probe in found.values()), None),
        rejected=sum(probe.rejected for probe in found.values()),
        failed=failed,
    )


def _stored_times(plan: Gathered, dataset: Dataset, engines: Engines) -> dict[str, StageTime]:
    """Of the stages that store pictures, from those that were stored for a try."""
    pictures = plan.sizes.pictures if plan.sizes is not None else {}
    estimate = Estimate(plan.shards, plan.made, dataset.loaded.execution.batch_size)
    loads = _loads(plan, dataset)
    return {
        SHARD_STAGE[name]: estimate.pictures(
            tried,
            _cpu_workers(engines, loads[SHARD_STAGE[name]]),
            stage=SHARD_STAGE[name],
        )
        for name, tried in pictures.items()
        if tried.tried
    }


def _skipped(plan: Gathered, dataset: Dataset, wanted: bool | None) -> str | None:
    if plan.sizes is None:
        return "the encoders cannot be had"
    if wanted is False:
        return "--no-probe was given"
    finished = finished_stages(dataset.recipe)
    if all(done >= finished for done in plan.made.values()):
        return "every shard is made already"
    missing = sum(model.download for model in plan.facts.models)
    if missing and wanted is None:
        return (
            f"the encoders are not here yet; --probe fetches them ({bytes_text(missing)}) and "
            f"times a few batches"
        )
    return None


def probe_spec(dataset: Dataset) -> ProbeSpec:
    """What the probe's process needs, for the same encoders and batches as a run."""
    recipe, batch_size = dataset.recipe, dataset.loaded.execution.batch_size
    specs: dict[str, Callable[[Dataset, int], StageSpec]] = {
        "encode_latents": latents_spec,
        "encode_text": text_spec,
        "encode_first_frame": first_frame_spec,
        "encode_clip": clip_spec,
    }
    encode = {stage: specs[stage](dataset, batch_size) for stage in encode_stages(recipe)}
    workload = recipe.video.workload if recipe.video else None
    return ProbeSpec(dataset.layout, dataset.encoders, encode, workload)


def _loads(plan: Gathered, dataset: Dataset) -> dict[str, Load]:
    """What each stage of shards has to do, as its asset will say it."""
    from diffprep_assets.encode_latents.assets import SAMPLES_PER_PROCESS as PICTURES
    from diffprep_assets.encode_text.assets import SAMPLES_PER_PROCESS as CAPTIONS
    from diffprep_assets.shard.assets import SAMPLES_PER_PROCESS as WRITTEN

    weights = dataset.encoders.weights_bytes if encode_stages(dataset.recipe) else int
    text: tuple[EncoderRole, ...] = ("t5",) if dataset.recipe.video is not None else ("t5", "clip")
    each = {
        "encode_latents": (PICTURES, lambda: weights("vae")),
        "encode_text": (CAPTIONS, lambda: weights(*text)),
        "encode_first_frame": (PICTURES, lambda: weights("vae")),
        "encode_clip": (PICTURES, lambda: _image_bytes(dataset)),
        "shard_energon_video": (WRITTEN, int),
        "shard": (WRITTEN, int),
        "shard_raw": (WRITTEN, int),
        "shard_mds": (WRITTEN, int),
    }
    loads = {}
    for stage in shard_stages(dataset.recipe):
        per_process, worker_bytes = each[stage]
        left = [shard for shard in plan.shards if stage not in plan.made[shard.shard]]
        samples = sum(shard.num_samples for shard in left)
        loads[stage] = Load(len(left), samples, per_process, worker_bytes)
    return loads


def _image_bytes(dataset: Dataset) -> int:
    roles: tuple[EncoderRole, ...] = ("clip",) if "clip" in dataset.identities else ()
    return dataset.encoders.weights_bytes(*roles)


def _times(
    plan: Gathered, dataset: Dataset, found: Mapping[str, StageProbe], workers: Mapping[str, int]
) -> dict[str, StageTime]:
    estimate = Estimate(plan.shards, plan.made, dataset.loaded.execution.batch_size)
    times = {}
    for stage, probe in found.items():
        if stage in ("encode_latents", "encode_first_frame"):
            times[stage] = estimate.latents(probe, workers[stage], stage=stage)
        elif stage in ("encode_text", "encode_clip"):
            times[stage] = estimate.text(probe, workers[stage], stage=stage)
        elif plan.sizes is not None:
            times[stage] = estimate.tars(probe, workers[stage], plan.sizes)
    return times


def _cpu_workers(engines: Engines, load: Load) -> int:
    with engines.cpu(load) as engine:
        return len(_devices(engine))


def _devices(engine: ComputeEngine) -> tuple[str, ...]:
    if isinstance(engine, LocalEngine):
        return engine.devices
    return (engine.device,) if isinstance(engine, InlineEngine) else ("cpu",)
