"""One shard's tar against the index, and the samples in it."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import xxhash

from diffprep_assets.validate.clips import inspect_clip
from diffprep_assets.validate.index_rows import IndexRows, read_idx
from diffprep_assets.validate.metadata import DatasetFolder
from diffprep_assets.validate.pictures import inspect_picture
from diffprep_assets.validate.report import Failure
from diffprep_assets.validate.samples import Profile, profile_problems
from diffprep_assets.validate.tar_walk import Walk, WalkedSample, walk_tar
from diffprep_assets.validate.tensors import inspect_members

CHUNK = 1 << 20
# How a sample's members are looked at, by encoding.
INSPECTORS = {
    "preencoded": inspect_members,
    "preencoded_video": inspect_clip,
    "raw": inspect_picture,
}


@dataclass(slots=True)
class Findings:
    """What the shards seen so far have shown; the first sound sample sets the profile.

    `excluded` counts, by shard, the samples that split.yaml leaves out one by one.
    """

    counts: list[Failure] = field(default_factory=list)
    looks: list[Failure] = field(default_factory=list)
    digests: list[Failure] = field(default_factory=list)
    samples: int = 0
    size_bytes: int = 0
    inspected: int = 0
    compared: int = 0
    profile: Profile | None = None
    excluded: dict[str, int] = field(default_factory=dict)


class ShardInspector:
    """Looks at a dataset's shards one by one; holds one sample and one shard's rows at a time."""

    def __init__(self, folder: DatasetFolder, index: IndexRows, *, full: bool) -> None:
        self._folder = folder
        self._index = index
        self._full = full
        content = folder.provenance or {"shards": []}
        self._described = {shard["name"]: shard for shard in content["shards"]}
        # Shards of which samples are excluded one by one.
        self._touched = {entry.rpartition("/")[0] for entry in folder.exclude}
        self.findings = Findings()

    def inspect(self, number: int, name: str) -> None:
        """Add what the shard `name`, at place `number` of the index, shows."""
        findings = self.findings
        try:
            walk = walk_tar(self._folder.tar(name))
            rows = self._index.samples(number)
        except (OSError, sqlite3.Error) as error:
            findings.counts.append(Failure(f"cannot be read: {error}", name))
            return
        findings.samples += len(walk.samples)
        named = [f"{name}/{sample.key}" for sample in walk.samples]
        findings.excluded[name] = sum(key in self._folder.exclude for key in named)
        findings.size_bytes += self._folder.tar(name).stat().st_size
        problems = [*self._count_problems(name, walk), *self._row_problems(walk, rows)]
        findings.counts += [Failure(problem, name) for problem in problems]
        self._inspect_samples(name, walk.samples if walk.problem is None else rows or walk.samples)

    def take_as_known(self, name: str) -> None:
        """Add what the index says of a shard that an earlier validation read."""
        findings = self.findings
        findings.samples += self._folder.counts[name] or 0
        findings.size_bytes += self._folder.tar(name).stat().st_size
        if name in self._touched:
            keys = self._index.digests(name)
            findings.excluded[name] = sum(f"{name}/{key}" in self._folder.exclude for key in keys)

    def _count_problems(self, name: str, walk: Walk) -> Iterator[str]:
        """The tar against .info.json, .idx and dataset.json."""
        if walk.problem is not None:
            yield walk.problem
        counted = self._folder.counts[name]
        if counted is not None and len(walk.samples) != counted:
            yield f"holds {len(walk.samples)} samples, .info.json says {counted}"
        if counted is None and not walk.samples:
            yield "holds no sample"
        if len({sample.key for sample in walk.samples}) != len(walk.samples):
            yield "holds a key twice, or members of a sample that are not adjacent"
        size, described = self._folder.tar(name).stat().st_size, self._described.get(name)
        if described is not None and size != described["size_bytes"]:
            yield f"is {size} bytes, dataset.json says {described['size_bytes']}"
        idx = self._folder.tar(name).with_name(f"{name.rpartition('/')[2]}.idx")
        if counted is not None and walk.samples and idx.is_file():
            last = walk.samples[-1]
            wanted = (*(sample.offset for sample in walk.samples), last.offset + last.size)
            if read_idx(idx) != wanted:
                yield ".idx holds other offsets than the tar"

    def _row_problems(self, walk: Walk, rows: Sequence[WalkedSample]) -> Iterator[str]:
        """The tar against index.sqlite."""
        if not self._folder.finalized or not self._index.has_samples or rows == walk.samples:
            return
        if len(rows) != len(walk.samples):
            yield f"holds {len(walk.samples)} samples, index.sqlite says {len(rows)}"
            return
        for row, sample in zip(rows, walk.samples, strict=True):
            if row != sample:
                yield f"sample {sample.key} lies elsewhere than index.sqlite says ({row.key})"
                return

    def _inspect_samples(self, name: str, rows: Sequence[WalkedSample]) -> None:
        """The first sample, or all with their digests, in one pass over the file."""
        wanted = self._index.digests(name) if self._full else {}
        whole = xxhash.xxh3_128()
        position, damaged = 0, False
        with self._folder.tar(name).open("rb") as file:
            for row in rows if self._full else rows[:1]:
                file.seek(row.offset)
                data = file.read(row.size)
                if self._full:
                    whole.update(data)
                    position = position + len(data) if row.offset == position else -1
                    damaged |= self._compare(name, row, data, wanted)
                self._inspect_sample(name, row, data)
            if self._full and position >= 0:
                file.seek(position)
                while chunk := file.read(CHUNK):
                    whole.update(chunk)
                self._compare_whole(name, whole.hexdigest(), damaged=damaged)

    def _compare(
        self, name: str, row: WalkedSample, data: bytes, wanted: Mapping[str, str]
    ) -> bool:
        """True when the sample's bytes are not those that were written."""
        if not self._index.has_digests:
            return False
        self.findings.compared += 1
        if wanted.get(row.key) == xxhash.xxh3_128_hexdigest(data):
            return False
        problem = "its bytes changed" if row.key in wanted else "digests.parquet has no row for it"
        self.findings.digests.append(Failure(problem, name, row.key))
        return True

    def _compare_whole(self, name: str, digest: str, *, damaged: bool) -> None:
        described: Mapping[str, Any] | None = self._described.get(name)
        if described is not None and digest != described["digest"] and not damaged:
            self.findings.digests.append(
                Failure("its bytes changed outside every sample (end marker)", name)
            )

    def _inspect_sample(self, name: str, row: WalkedSample, data: bytes) -> None:
        findings = self.findings
        findings.inspected += 1
        members = {
            part.name: data[part.offset - row.offset : part.offset - row.offset + part.size]
            for part in row.parts
        }
        ours = self._folder.provenance is not None
        inspect = INSPECTORS[self._folder.encoding]
        sample = inspect(members, ours=ours)
        problems = list(sample.problems)
        if sample.profile is not None:
            findings.profile = findings.profile or sample.profile
            problems += profile_problems(sample.profile, findings.profile)
        described = self._described.get(name)
        if described is not None and sample.metadata is not None:
            got = (sample.metadata["width"], sample.metadata["height"])
            if got != (described["width"], described["height"]):
                problems.append(
                    f"json says {got[0]}x{got[1]} pixels in a shard of "
                    f"{described['width']}x{described['height']}"
                )
        findings.looks += [Failure(problem, name, row.key) for problem in problems]
