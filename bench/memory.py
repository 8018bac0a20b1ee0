"""Peak memory of a run by the number of pictures, and its slope.

Each size runs in a process of its own, workers included. Prints peaks and KB a picture:

    python bench/memory.py [--sizes 500 2000 8000] [--repeats 3]
"""

import argparse
import multiprocessing
import resource
import statistics
import tempfile
from itertools import pairwise
from pathlib import Path

from inputs import Bench, photographs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[500, 2000, 8000])
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    peaks = {}
    for size in options.sizes:
        seen = sorted(in_a_process(size) for _ in range(options.repeats))
        peaks[size] = statistics.median(seen)
        print(
            f"{size} pictures: peak {peaks[size] / 2**20:.0f} MB "
            f"({seen[0] / 2**20:.0f} to {seen[-1] / 2**20:.0f})",
            flush=True,
        )
    for few, many in pairwise(options.sizes):
        slope = (peaks[many] - peaks[few]) / (many - few) / 1024
        print(f"from {few} to {many}: {slope:.2f} KB a picture (target: at most 5)")


def in_a_process(size: int) -> int:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(peak_bytes, (size,))


def peak_bytes(size: int) -> int:
    """Peak of the process that runs, one worker, whose shards grow with the dataset's number."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        photographs(bench.pictures, count=size, megapixels=(0.05, 0.1))
        bench.recipe(
            "bench",
            image={"image_size": 64},
            model={"t5_max_length": 32},
            output={"shard_size": 500},
        )
        bench.run("bench", workers=1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
