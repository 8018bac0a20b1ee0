"""Which split a new sample belongs to, for life."""

from collections.abc import Iterable, Mapping
from fractions import Fraction

import xxhash

SPLITS = ("train", "val", "test")


def quotas(num_samples: int, shares: Mapping[str, Fraction]) -> dict[str, int]:
    """Samples of val and test: floor(n * share + 1/2). Train takes the rest."""
    half = Fraction(1, 2)
    return {split: int(num_samples * shares[split] + half) for split in ("val", "test")}


def splits_of_groups(
    groups: Mapping[str, int],
    *,
    known: Mapping[str, int],
    shares: Mapping[str, Fraction],
    seed: int,
) -> dict[str, str]:
    """The split of every new group. `groups` gives its number of samples, `known` the samples
    that each split already has.

    Quotas hold over old and new samples together and are filled in the order of a hash of
    (seed, group), so that the order of the source plays no part; train is never left empty.
    """
    total = sum(groups.values()) + sum(known.values())
    wanted = {split: quota - known.get(split, 0) for split, quota in quotas(total, shares).items()}
    order = _seeded(groups, f"split {seed}")
    chosen: dict[str, str] = {}
    for group in order:
        split = next((name for name in ("val", "test") if wanted[name] >= groups[group]), "train")
        if split != "train":
            wanted[split] -= groups[group]
        chosen[group] = split
    if order and not known.get("train") and "train" not in chosen.values():
        chosen[order[-1]] = "train"
    return chosen


def shuffled(keys: Iterable[str], *, seed: int) -> list[str]:
    """The keys in an order that depends on `seed` and the keys alone."""
    return _seeded(keys, f"shuffle {seed}")


def _seeded(keys: Iterable[str], salt: str) -> list[str]:
    return sorted(keys, key=lambda key: (_rank(salt, key), key))


def _rank(salt: str, key: str) -> int:
    return xxhash.xxh3_64_intdigest(f"{salt}\0{key}".encode())


def empty_splits(shares: Mapping[str, Fraction], samples: Iterable[str]) -> list[str]:
    """The splits that have a share and none of the samples, of which `samples` gives the splits.

    A few samples make none of a small share, and a changed share moves no earlier sample.
    """
    held = set(samples)
    return [split for split, share in shares.items() if share and split not in held]
