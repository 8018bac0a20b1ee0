"""The pixels of a planned sample, out of its picture's bytes: what the VAE sees."""

import numpy as np
import xxhash

from diffprep_assets.dataset import Dataset
from diffprep_assets.shard_plan.members import Member
from diffprep_assets.shard_plan.plan import Candidate
from diffprep_resources.errors import SourceChangedError
from diffprep_resources.pictures.decode import PictureLimits, load_upright
from diffprep_resources.pictures.fit import Crop, fit


def planned_pixels(
    data: bytes, *, sample: Candidate, limits: PictureLimits, background: str
) -> np.ndarray:
    """uint8 sRGB [H, W, 3] of the bucket's size, upright, cropped and resized as planned.

    Raises SourceChangedError for other bytes than `bucket` saw, SampleReject as `load_upright`.
    """
    if xxhash.xxh3_128_hexdigest(data) != sample.image_digest:
        raise SourceChangedError(
            f"source changed since bucket: {sample.source_key}; run download and bucket again, as "
            "`diffprep run` does"
        )
    picture = load_upright(data, limits=limits, background=background)
    return fit(
        picture,
        crop=Crop(*sample.crop),
        width=sample.bucket.width,
        height=sample.bucket.height,
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
