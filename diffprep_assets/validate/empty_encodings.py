"""The encoding of the empty caption, which trainers put in for dropped captions."""

import numpy as np

from diffprep_assets.validate.metadata import DatasetFolder
from diffprep_assets.validate.report import Check, Failure
from diffprep_assets.validate.tensors import TensorProfile

FILES = ("t5_empty.npy", "clip_empty.npy")


def empty_encodings_check(folder: DatasetFolder, profile: TensorProfile) -> Check:
    """float32 [1, L, D] and [1, P] of the samples' own L, D and P. Optional in others' datasets."""
    failures = []
    found = 0
    for name, shape in zip(FILES, profile.text_shapes, strict=True):
        path = folder.layout.published_empty_encodings / name
        if not path.is_file():
            if folder.provenance is not None:
                failures.append(Failure(f"{name} is missing"))
            continue
        found += 1
        try:
            array = np.load(path, allow_pickle=False)
        except (OSError, ValueError) as error:
            failures.append(Failure(f"{name} cannot be read: {error}"))
            continue
        wanted = (1, *shape)
        if array.dtype != np.float32 or array.shape != wanted:
            failures.append(
                Failure(f"{name} must be float32 {wanted}, got {array.dtype} {array.shape}")
            )
        elif not np.isfinite(array).all() or (array == array.flat[0]).all():
            failures.append(Failure(f"{name} holds NaN, infinity or one value everywhere"))
    return Check("empty_encodings", f"{found} of {len(FILES)} files", tuple(failures))
