"""The columns that every MDS sample has, and the names that further captions cannot take."""

from collections.abc import Iterable, Iterator

IMAGE = "image"
SIZES = ("width", "height", "original_width", "original_height")
TEXTS = ("id", "source_key", "caption")
IMG_LATENT = "img_latent"
# PRX finds latents of a caption by `latent_<caption>_<tower>`, and masks likewise.
RESERVED_STARTS = ("latent_", "attention_mask_")


def unfit_names(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Of further caption columns those that cannot be, each with the reason."""
    names = list(names)
    for name in names:
        if name in (IMAGE, *SIZES, *TEXTS, IMG_LATENT) or name.startswith(RESERVED_STARTS):
            yield name, "is a column that every sample has, or begins like one of latents"
            continue
        for other in ("caption", *names):
            if name.startswith(f"{other}_"):
                yield name, f"begins with the caption column {other!r} and `_`, as latents of it do"
