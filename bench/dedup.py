"""CPU seconds and memory of finding near-duplicates among a million hashes, against comparing each
pair with each (timed on a sample, scaled by the square)."""

import resource
import sys
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from diffprep_assets.curate.dedup import duplicates
from diffprep_assets.curate.near_hashes import near_components

SAMPLE = 20_000
MAX_DISTANCE = 4


def turned(hashes: np.ndarray, most: int, random: np.random.Generator) -> np.ndarray:
    """The hashes with up to this many bits turned."""
    for _ in range(most):
        bit = np.uint64(1) << random.integers(0, 64, len(hashes), dtype=np.uint64)
        hashes = hashes ^ np.where(random.random(len(hashes)) < 0.7, bit, np.uint64(0))
    return hashes


def skewed(count: int, random: np.random.Generator) -> np.ndarray:
    """Hashes whose bits are set with chances from 50% to 90%, as of pictures that are alike."""
    hashes = np.zeros(count, np.uint64)
    for bit, chance in enumerate(random.uniform(0.5, 0.9, 64)):
        hashes |= (random.random(count) < chance).astype(np.uint64) << np.uint64(bit)
    return hashes


def sets(count: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    strangers = random.integers(0, 2**64, count, dtype=np.uint64)
    fifth = count // 5
    copies = strangers.copy()
    copies[:fifth] = turned(strangers[fifth : 2 * fifth], MAX_DISTANCE, random)
    families = copies.copy()
    families[-20_000:] = turned(np.full(20_000, strangers[0]), 4, random)
    families[-70_000:-20_000] = turned(np.full(50_000, strangers[1]), 12, random)
    return {
        "strangers": strangers,
        "a fifth near copies": copies,
        "and families of 20,000 and 50,000": families,
        "bits of unequal chance": skewed(count, random),
    }


def every_pair(hashes: np.ndarray) -> None:
    for place, value in enumerate(hashes):
        np.flatnonzero(np.bitwise_count(hashes[place + 1 :] ^ value) <= MAX_DISTANCE)


def table(hashes: np.ndarray, random: np.random.Generator) -> pa.Table:
    """A picture for each hash, in a random order."""
    names = [f"images/{number:09d}.jpg" for number in random.permutation(len(hashes))]
    return pa.table(
        {
            "key": names,
            "image_digest": [f"{number:032x}" for number in range(len(hashes))],
            "hash": hashes,
            "area": random.integers(1 << 18, 1 << 22, len(hashes)),
            "planned": np.zeros(len(hashes), bool),
        }
    )


def seconds(work: Callable[[], object]) -> float:
    """Of the CPU: other work on the machine plays no part."""
    start = time.process_time()
    work()
    return time.process_time() - start


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    random = np.random.default_rng(0)
    sample = random.integers(0, 2**64, SAMPLE, dtype=np.uint64)
    by_pairs = seconds(lambda: every_pair(sample)) * (count / SAMPLE) ** 2
    print(f"every pair of {count:,}: {by_pairs:,.0f} s, scaled from {SAMPLE:,}\n")
    print("| hashes | max_distance | CPU seconds | every pair / this | peak MB |")
    print("|---|---|---|---|---|")
    for name, hashes in sets(count, random).items():
        distinct = np.unique(hashes)
        for most in (2, MAX_DISTANCE):
            took = seconds(lambda at=distinct, most=most: near_components(at, max_distance=most))
            ratio = f"{by_pairs / took:,.0f}" if most == MAX_DISTANCE else ""
            print(f"| {name} | {most} | {took:.2f} | {ratio} | {peak_mb():.0f} |", flush=True)
    pictures = table(sets(count, random)["a fifth near copies"], random)
    took = seconds(lambda: duplicates(pictures, max_distance=MAX_DISTANCE))
    print(
        f"\nverdicts on {count:,} pictures, a fifth near copies: {took:.1f} s, {peak_mb():.0f} MB"
    )


if __name__ == "__main__":
    main()
