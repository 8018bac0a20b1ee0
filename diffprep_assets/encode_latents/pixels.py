"""A planned sample's picture out of its source's bytes: pixels as the VAE sees them, or the bytes
that the raw and MDS outputs store."""

import numpy as np
import xxhash

from diffprep_assets.dataset import Dataset
from diffprep_assets.shard_plan.members import Member
from diffprep_assets.shard_plan.plan import Candidate
from diffprep_resources.errors import SourceChangedError
from diffprep_resources.pictures.decode import PictureLimits, load_upright
from diffprep_resources.pictures.fit import Crop, fit
from diffprep_resources.pictures.stored import Cut, StoredForm, stored_picture


def planned_pixels(
    data: bytes, *, sample: Candidate, limits: PictureLimits, background: str
) -> np.ndarray:
    """uint8 sRGB [H, W, 3] of the bucket's size, upright, cropped and resized as planned.

    Raises SourceChangedError for other bytes than `bucket` saw, SampleReject as `load_upright`.
    """
    check_unchanged(data, sample=sample)
    picture = load_upright(data, limits=limits, background=background)
    cut = planned_cut(sample)
    return fit(picture, crop=cut.crop, width=cut.width, height=cut.height)


def planned_picture(
    data: bytes, *, sample: Candidate, form: StoredForm, limits: PictureLimits, background: str
) -> bytes:
    """The file that is stored of those pixels. Raises as `planned_pixels` and `stored_picture`."""
    check_unchanged(data, sample=sample)
    cut = planned_cut(sample)
    return stored_picture(data, cut=cut, form=form, limits=limits, background=background)


def planned_cut(sample: Candidate) -> Cut:
    """What of the upright picture becomes the sample, and its size."""
    return Cut(Crop(*sample.crop), sample.bucket.width, sample.bucket.height)


def check_unchanged(data: bytes, *, sample: Candidate) -> None:
    """Raises SourceChangedError for other bytes than `bucket` saw."""
    if xxhash.xxh3_128_hexdigest(data) != sample.image_digest:
        raise source_changed(sample)


def source_changed(sample: Candidate) -> SourceChangedError:
    """What to do about a sample that is not what `bucket` saw."""
    return SourceChangedError(
        f"source changed since bucket: {sample.source_key}; run download and bucket again, as "
        "`diffprep run` does"
    )


def member_pixels(dataset: Dataset, member: Member) -> np.ndarray:
    """The pixels of a shard's member out of its source. Raises as `planned_pixels` does, OSError
    and SourceAccessError where the source cannot be reached."""
    image = dataset.recipe.image
    return planned_pixels(
        dataset.source.read_image(member.location),
        sample=member.planned.sample,
        limits=PictureLimits(max_pixels=image.max_pixels, min_side=image.min_side),
        background=image.background,
    )
