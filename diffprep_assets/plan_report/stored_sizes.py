"""A few pictures stored for a try: how many bytes they take as raw and MDS hold them, and how
long that takes."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, zip_longest

from diffprep_assets.dataset import Dataset
from diffprep_assets.plan_report.kept_rows import ShownRow
from diffprep_assets.recipe.formats import Format, image_quality
from diffprep_assets.shard_plan.plan import Bucket
from diffprep_resources.errors import DiffprepError
from diffprep_resources.pictures.decode import PictureLimits
from diffprep_resources.pictures.fit import Crop
from diffprep_resources.pictures.stored import Cut, StoredForm, stored_picture
from diffprep_resources.sources.base import Location

MOST = 32
BUDGET_S = 6.0
ENOUGH = 4
"""As many pictures of a bucket tell more of it than those of all buckets do."""
# Bytes a pixel where no picture can be read again: of photographs at the default qualities.
RULE_OF_THUMB = {"jpg": 0.6, "png": 1.6, "webp": 0.3}


@dataclass(slots=True)
class PictureSizes:
    """What stored pictures of one format come to. `thumb` is in bytes a pixel."""

    thumb: float
    _tried: dict[Bucket, list[tuple[int, float]]] = field(default_factory=dict)

    def add(self, bucket: Bucket, size: int, seconds: float) -> None:
        """One that was stored: its bytes, and the time from reading it on."""
        self._tried.setdefault(bucket, []).append((size, seconds))

    @property
    def tried(self) -> int:
        return sum(map(len, self._tried.values()))

    @property
    def tried_seconds(self) -> float:
        return sum(seconds for tries in self._tried.values() for _, seconds in tries)

    def bytes_of(self, bucket: Bucket) -> float:
        """Of one picture of the bucket, on average."""
        near = self._near(bucket)
        pixels = sum(one.width * one.height * len(tries) for one, tries in near.items())
        size = sum(size for tries in near.values() for size, _ in tries)
        return bucket.width * bucket.height * (size / pixels if pixels else self.thumb)

    def seconds_of(self, bucket: Bucket) -> float:
        """Of one picture of the bucket on one core, on average; 0 where none was tried."""
        seconds = [second for tries in self._near(bucket).values() for _, second in tries]
        return sum(seconds) / len(seconds) if seconds else 0.0

    def _near(self, bucket: Bucket) -> Mapping[Bucket, Sequence[tuple[int, float]]]:
        tries = self._tried.get(bucket, [])
        return {bucket: tries} if len(tries) >= ENOUGH else self._tried


def picture_sizes(
    dataset: Dataset, chosen: Mapping[Bucket, Sequence[ShownRow]]
) -> dict[Format, PictureSizes]:
    """For each output format that stores pictures: what some of the chosen ones came to.

    At most 32, of all buckets in turn, in a few seconds; one that cannot be read again is passed
    over.
    """
    recipe = dataset.recipe
    thumb = RULE_OF_THUMB[recipe.output.image_format]
    stored: list[Format] = [name for name in recipe.output.formats if name != "energon"]
    found: dict[Format, PictureSizes] = {name: PictureSizes(thumb) for name in stored}
    forms: dict[Format, StoredForm] = {
        name: StoredForm(recipe.output.image_format, image_quality(recipe, name)) for name in stored
    }
    begin = time.monotonic()
    for bucket, row in islice(_in_turn(chosen), MOST if found else 0):
        if time.monotonic() - begin > BUDGET_S:
            break
        for name, form in forms.items():
            start = time.monotonic()
            try:
                size = len(_stored(dataset, row, form))
            except (DiffprepError, OSError):
                break
            found[name].add(bucket, size, time.monotonic() - start)
    return found


def _in_turn(chosen: Mapping[Bucket, Sequence[ShownRow]]) -> Iterator[tuple[Bucket, ShownRow]]:
    """The first of each bucket, then the second of each, ..."""
    for rows in zip_longest(*chosen.values()):
        for bucket, row in zip(chosen, rows, strict=True):
            if row is not None:
                yield bucket, row


def _stored(dataset: Dataset, row: ShownRow, form: StoredForm) -> bytes:
    image = dataset.recipe.image
    crop = Crop(*(row[f"crop_{name}"] for name in ("left", "top", "width", "height")))
    return stored_picture(
        dataset.source.read_image(Location(row["path"], row["offset"], row["length"], row["row"])),
        cut=Cut(crop, row["width"], row["height"]),
        form=form,
        limits=PictureLimits(max_pixels=image.max_pixels, min_side=image.min_side),
        background=image.background,
    )
