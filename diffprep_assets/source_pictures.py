"""What stands in the source for a sample: a picture, or of a clip the first frame taken."""

import numpy as np
from PIL import Image

from diffprep_assets.dataset import Dataset
from diffprep_assets.encode_latents.clip_pixels import clip_pixels
from diffprep_assets.encode_latents.pixels import member_pixels
from diffprep_assets.shard_plan.members import Member
from diffprep_assets.shard_plan.plan import ClipPlan
from diffprep_resources.clips.pixels import upright_frame
from diffprep_resources.pictures.decode import PictureLimits, load_upright
from diffprep_resources.sources.base import Location


def source_picture(dataset: Dataset, location: Location, *, clip: ClipPlan | None) -> Image.Image:
    """The whole picture or frame, upright. Raises SampleReject and SourceChangedError, OSError and
    SourceAccessError where the source cannot be reached."""
    if clip is not None:
        with dataset.source.open_media(location) as media:
            return Image.fromarray(upright_frame(media, pts=clip.wanted_pts[0]))
    image = dataset.recipe.image
    return load_upright(
        dataset.source.read_image(location),
        limits=PictureLimits(max_pixels=image.max_pixels, min_side=image.min_side),
        background=image.background,
    )


def encoded_picture(dataset: Dataset, member: Member) -> np.ndarray:
    """uint8 [H, W, 3]: the picture, or the first frame, as it is encoded. Raises as `member_pixels`
    and `clip_pixels`."""
    if member.clip is None:
        return member_pixels(dataset, member)
    return clip_pixels(dataset.source, member, first=1)[0]
