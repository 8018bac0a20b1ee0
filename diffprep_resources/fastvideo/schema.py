"""The columns of FastVideo's parquet files, in its order.

They are those of fastvideo/dataset/dataloader/schema.py, pyarrow_schema_t2v and pyarrow_schema_i2v.
"""

import pyarrow as pa

from diffprep_resources.encoders.base import Workload

VIDEO_TENSORS = ("vae_latent", "text_embedding")
IMAGE_TENSORS = ("clip_feature", "first_frame_latent", "pil_image")
# Left empty in every row of a dataset, or in none: FastVideo stacks a batch's tensors.
MAY_BE_EMPTY = ("clip_feature", "pil_image")
DTYPE = "float32"
"""What FastVideo reads, whatever a `*_dtype` column says."""


def tensor_names(workload: Workload) -> tuple[str, ...]:
    """The tensors of a row, in the order of their columns."""
    return VIDEO_TENSORS + IMAGE_TENSORS if workload == "i2v" else VIDEO_TENSORS


def fastvideo_schema(workload: Workload) -> pa.Schema:
    """Three columns to each tensor: raw little-endian values, shape, and the dtype's name."""
    fields: list[tuple[str, pa.DataType]] = [("id", pa.string())]
    for name in tensor_names(workload):
        fields.append((f"{name}_bytes", pa.binary()))
        fields.append((f"{name}_shape", pa.list_(pa.int64())))
        fields.append((f"{name}_dtype", pa.string()))
    fields += [(name, pa.string()) for name in ("file_name", "caption", "media_type")]
    fields += [(name, pa.int64()) for name in ("width", "height", "num_frames")]
    fields += [(name, pa.float64()) for name in ("duration_sec", "fps")]
    return pa.schema(fields)
