"""The probe of a plan: run on the device that the run would take, turned into times."""

from collections.abc import Callable, Mapping

from diffprep_assets.dataset import Dataset
from diffprep_assets.encode_latents.worker import LatentsSpec
from diffprep_assets.encode_text.worker import TextSpec
from diffprep_assets.plan_report.facts import ProbeFacts, StageTime
from diffprep_assets.plan_report.gather import Gathered
from diffprep_assets.plan_report.probe import ProbeSpec, StageProbe
from diffprep_assets.plan_report.times import Estimate, probed
from diffprep_assets.quantities import bytes_text
from diffprep_resources.compute.base import ComputeEngine
from diffprep_resources.compute.engines import Engines, Load
from diffprep_resources.compute.inline import InlineEngine
from diffprep_resources.compute.local import LocalEngine
from diffprep_resources.pictures.decode import PictureLimits


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
    `told` hears of each of the three stages."""
    skipped = _skipped(plan, wanted)
    if skipped is not None or plan.sizes is None:
        return ProbeFacts(skipped=skipped)
    dataset.encoders.fetch()
    wanted_device = device or dataset.loaded.execution.device
    loads = _loads(plan, dataset)
    # The device stays leased while the probe runs on it.
    with engines.device(loads["encode_latents"], device=wanted_device) as engine:
        used, workers = _devices(engine)[0], {"encode_latents": len(_devices(engine))}
        found, failed = probed(probe_spec(dataset), plan.shards, device=used, told=told)
    with engines.device(loads["encode_text"], device=wanted_device) as engine:
        workers["encode_text"] = len(_devices(engine))
    with engines.cpu(loads["shard"]) as engine:
        workers["shard"] = len(_devices(engine))
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


def _skipped(plan: Gathered, wanted: bool | None) -> str | None:
    if plan.sizes is None:
        return "the encoders cannot be had"
    if wanted is False:
        return "--no-probe was given"
    if all(tar for _, _, tar in plan.made.values()):
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
    image, batch_size = dataset.recipe.image, dataset.loaded.execution.batch_size
    return ProbeSpec(
        LatentsSpec(
            dataset.layout,
            dataset.source,
            dataset.encoders,
            dataset.latents_settings,
            image.background,
            PictureLimits(max_pixels=image.max_pixels, min_side=image.min_side),
            batch_size,
        ),
        TextSpec(dataset.layout, dataset.encoders, dataset.text_settings, batch_size),
    )


def _loads(plan: Gathered, dataset: Dataset) -> dict[str, Load]:
    """What each stage has to do, as its asset will say it."""
    from diffprep_assets.encode_latents.assets import SAMPLES_PER_PROCESS as PICTURES
    from diffprep_assets.encode_text.assets import SAMPLES_PER_PROCESS as CAPTIONS
    from diffprep_assets.shard.assets import SAMPLES_PER_PROCESS as WRITTEN

    encoders = dataset.encoders
    each = {
        "encode_latents": (PICTURES, lambda: encoders.weights_bytes("vae")),
        "encode_text": (CAPTIONS, lambda: encoders.weights_bytes("t5", "clip")),
        "shard": (WRITTEN, int),
    }
    loads = {}
    for number, (stage, (per_process, worker_bytes)) in enumerate(each.items()):
        left = [shard.num_samples for shard in plan.shards if not plan.made[shard.shard][number]]
        loads[stage] = Load(len(left), sum(left), per_process, worker_bytes)
    return loads


def _times(
    plan: Gathered, dataset: Dataset, found: Mapping[str, StageProbe], workers: Mapping[str, int]
) -> dict[str, StageTime]:
    estimate = Estimate(plan.shards, plan.made, dataset.loaded.execution.batch_size)
    times = {}
    for stage, probe in found.items():
        if stage == "encode_latents":
            times[stage] = estimate.latents(probe, workers[stage])
        elif stage == "encode_text":
            times[stage] = estimate.text(probe, workers[stage])
        elif plan.sizes is not None:
            times[stage] = estimate.tars(probe, workers[stage], plan.sizes)
    return times


def _devices(engine: ComputeEngine) -> tuple[str, ...]:
    if isinstance(engine, LocalEngine):
        return engine.devices
    return (engine.device,) if isinstance(engine, InlineEngine) else ("cpu",)
