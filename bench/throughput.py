"""Pictures a second through encode_latents, encode_text and shard, against the encoders alone.

The floor is the same encoders fed from memory with the same batches, and nothing else. Prints
ratios of one run on one machine:

    python bench/throughput.py [--pictures 1000] [--workers 1 2] [--repeats 3]
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import psutil
from inputs import Bench, photographs

from diffprep_resources.encoders.threads import one_thread_on_cpu

STAGES = ("encode_latents", "encode_text", "shard")
BATCH = 8
SHARD_SIZE = 250


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=int, default=1000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        captions = photographs(bench.pictures, count=options.pictures, megapixels=(0.3, 2.0))
        floors = [encoder_floor(bench, captions) for _ in range(options.repeats)]
        floor = statistics.median(floors)
        count = options.pictures
        print(
            f"{count} pictures of 0.3 to 2 megapixels to 256 px, bf16, batch {BATCH}, "
            f"shards of {SHARD_SIZE}"
        )
        print(f"encoders alone, one process: {floor:.1f} s, {count / floor:.1f} a second")
        for workers in options.workers:
            walls, cpus = zip(
                *(measured(bench, workers=workers) for _ in range(options.repeats)), strict=True
            )
            wall, cpu = statistics.median(walls), statistics.median(cpus)
            print(
                f"{workers} worker(s): {wall:.1f} s, {count / wall:.1f} a second, "
                f"CPU {cpu:.1f} s of the process tree ({1000 * cpu / count:.0f} ms a "
                f"picture); wall / floor {wall / floor:.2f}, wall / (CPU / {workers}) "
                f"{wall / (cpu / workers):.2f}"
            )


def measured(bench: Bench, *, workers: int) -> tuple[float, float]:
    """Wall and CPU seconds of the three stages, over a plan that is there already."""
    bench.recipe(
        "bench",
        image={"image_size": 256},
        model={"t5_max_length": 512},
        output={"shard_size": SHARD_SIZE},
    )
    cpu = cpu_seconds()
    report = bench.run("bench", workers=workers)
    spent = cpu_seconds() - cpu
    rest = sum(s.seconds for name, s in report.summaries.items() if name not in STAGES)
    wall = sum(report.summaries[stage].seconds for stage in STAGES)
    bench.forget("bench")
    print("  " + ", ".join(f"{s} {report.summaries[s].seconds:.1f} s" for s in STAGES))
    return wall, spent - rest


def encoder_floor(bench: Bench, captions: Sequence[str]) -> float:
    """Seconds of the encoders alone, models loaded, batches in memory."""
    one_thread_on_cpu("cpu")
    family = bench.encoders(t5_max_length=512)
    latents, text = family.latents_encoder("cpu"), family.text_encoder("cpu")
    pixels = np.random.default_rng(0).integers(0, 256, (BATCH, 256, 256, 3), dtype=np.uint8)
    begin = time.monotonic()
    for ids in batches(range(len(captions))):
        latents.encode(pixels, sample_ids=ids)
    for batch in batches(captions):
        text.encode(batch)
    return time.monotonic() - begin


def batches(items: Sequence, *, size: int = BATCH) -> Iterator[list]:
    """The items in batches, the last one filled up."""
    for start in range(0, len(items), size):
        batch = list(items[start : start + size])
        yield batch + [batch[-1]] * (size - len(batch))


def cpu_seconds() -> float:
    """CPU of this process, of what it started, and of what ended under any of these."""
    process = psutil.Process()
    return sum(sum(one.cpu_times()[:4]) for one in (process, *process.children(recursive=True)))


if __name__ == "__main__":
    main()
