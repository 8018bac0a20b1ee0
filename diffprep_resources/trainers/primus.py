"""Primus over a dataset of many buckets: three lines that make its batches uniform.

Primus's `EncodedDiffusionTaskEncoder` stacks a batch as it comes; where shapes differ, energon
drops the batch without a word. With this mixin before it, batches are formed by shape:

    from diffprep_resources.trainers.primus import GroupedByShape
    from primus.backends.megatron.data.diffusion.task_encoders.image import (
        EncodedDiffusionTaskEncoder,
    )

    class Grouped(GroupedByShape, EncodedDiffusionTaskEncoder):
        pass

Give `Grouped` wherever Primus takes its task encoder. Needs energon only, and no diffprep besides
this file, which may be copied.
"""

from typing import Any

from megatron.energon import stateless


class GroupedByShape:
    """A mixin for a task encoder whose samples have `latents` or, with those left out, `mean`."""

    @stateless
    def batch_group_criterion(self, sample: Any) -> tuple[tuple[int, ...], None]:
        """Samples of one latent shape go into one batch, of the size that the loader was given."""
        latents = sample.latents if sample.latents is not None else sample.mean
        return tuple(latents.shape), None
