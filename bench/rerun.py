"""Seconds of a rerun, by what changed, and of `status`.

python bench/rerun.py [--samples 1000 10000] [--status-shards 10000]
"""

import argparse
import tempfile
import time
from pathlib import Path

from inputs import Bench, photographs

from diffprep_assets.dataset import Dataset
from diffprep_assets.forecast import forecast
from diffprep_assets.recipe.load import load_recipe
from diffprep_assets.run_report import RunReport


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--status-shards", type=int, default=10_000)
    options = parser.parse_args()
    for samples in options.samples:
        with tempfile.TemporaryDirectory() as folder:
            reruns(Bench(Path(folder)), samples)
    with tempfile.TemporaryDirectory() as folder:
        status(Bench(Path(folder)), options.status_shards)


def reruns(bench: Bench, samples: int) -> None:
    make(bench, samples, shard_size=1000)
    first = timed(bench)
    print(f"{samples} samples: first run {first[0]:.1f} s")
    show("nothing changed", *timed(bench), first=first[0])
    (bench.pictures / "captions/000007.txt").write_text("another caption")
    show("one caption changed", *timed(bench), first=first[0])
    photographs(bench.folder / "more", count=1, megapixels=(0.05, 0.1), seed=1)
    for kind, suffix in (("images", "jpg"), ("captions", "txt")):
        source = bench.folder / f"more/{kind}/000000.{suffix}"
        source.rename(bench.pictures / f"{kind}/z.{suffix}")
    show("one picture added", *timed(bench), first=first[0])


def status(bench: Bench, shards: int) -> None:
    """`status` over shards of one sample each."""
    make(bench, shards, shard_size=1)
    bench.run_unrecorded("bench")
    dataset = Dataset(
        load_recipe(bench.folder / "recipes/bench.yaml", base=bench.folder),
        bench.project.storage_root,
    )
    begin = time.monotonic()
    found = forecast(dataset)
    seconds = time.monotonic() - begin
    fresh = found.stages["shard"].counts()["fresh"]
    print(f"status over {fresh} fresh shards: {seconds:.1f} s (target: under 5)")


def make(bench: Bench, samples: int, *, shard_size: int) -> None:
    photographs(bench.pictures, count=samples, megapixels=(0.05, 0.1))
    bench.recipe(
        "bench",
        image={"image_size": 64},
        model={"t5_max_length": 32},
        output={"shard_size": shard_size},
    )


def timed(bench: Bench) -> tuple[float, RunReport]:
    begin = time.monotonic()
    report = bench.run("bench", workers=2)
    return time.monotonic() - begin, report


def show(what: str, seconds: float, report: RunReport, *, first: float) -> None:
    pictures = report.summaries["encode_latents"].samples.encoded
    captions = report.summaries["encode_text"].samples.encoded
    written = report.summaries["shard"].done
    print(
        f"  {what}: {seconds:.1f} s ({seconds / first:.3f} of the first run), "
        f"{pictures} pictures and {captions} captions encoded, "
        f"{written} shards written"
    )


if __name__ == "__main__":
    main()
