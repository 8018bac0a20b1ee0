"""Loading weights: quietly, from local safetensors files only, and never a layer left random."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffprep_resources.encoders.base import DtypeName
from diffprep_resources.errors import ModelError

if TYPE_CHECKING:
    import torch


def load_model(
    load: Callable[..., Any], *, folder: Path, dtype: DtypeName, label: str, **options: object
) -> "torch.nn.Module":
    """What `load` (a class's from_pretrained) makes of `folder`, in evaluation mode, on the CPU.

    Raises ModelError when a file cannot be read or when weights that the model needs are missing:
    both libraries would leave those random, with a line in the log.
    """
    import torch
    from safetensors import SafetensorError

    try:
        with quiet_libraries():
            model, report = load(
                str(folder),
                dtype=getattr(torch, dtype),
                use_safetensors=True,
                local_files_only=True,
                output_loading_info=True,
                **options,
            )
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise ModelError(f"{label}: cannot load {folder}: {error}") from error
    lacking = sorted(str(name) for kind in _FAULTS for name in report.get(kind, ()))
    if lacking:
        shown = ", ".join(lacking[:3])
        raise ModelError(
            f"{label}: {folder} lacks {len(lacking)} of the weights that its config asks for, or "
            f"has them in another shape: {shown}"
        )
    return model.eval().requires_grad_(False)


_FAULTS = ("missing_keys", "mismatched_keys", "error_msgs")


@contextlib.contextmanager
def quiet_libraries() -> Iterator[None]:
    """Within it, diffusers and transformers draw no progress bar and report errors only."""
    import diffusers.utils.logging as diffusers_logging
    import transformers.utils.logging as transformers_logging

    with contextlib.ExitStack() as restore:
        for logging in (diffusers_logging, transformers_logging):
            restore.callback(logging.set_verbosity, logging.get_verbosity())
            logging.set_verbosity_error()
            if logging.is_progress_bar_enabled():
                restore.callback(logging.enable_progress_bar)
                logging.disable_progress_bar()
        yield


def use_exact_arithmetic() -> None:
    """Settings of this process that keep a GPU's float32 exact and its choice of kernels fixed.

    cuDNN would otherwise compute float32 convolutions in TF32 (10 bits of mantissa) and could
    choose another algorithm in another run.
    """
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
