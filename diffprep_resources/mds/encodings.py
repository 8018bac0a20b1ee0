"""A column's value as the bytes that an MDS sample holds, and back.

    int           int64, 8 bytes
    str           UTF-8
    bytes         as they are
    jpeg, png     a picture file as it is: the library's own writer would encode pixels anew
    ndarray       [dtype code u8][ndim << 2 | k u8][shape as k-th of u8 u16 u32 u64][values]
    ndarray:T     the same of dtype T, without the code
    ndarray:T:S   of dtype T and shape S (`1,8`), the values alone: a fixed size
    bf16          [ndim u32][shape i32][values u16]: PRX's own, the upper halves of float32

Everything is little-endian. Source: mosaicml-streaming 0.13, base/format/mds/encodings.py, and for
bf16 PRX's mds_patches.py. Pickles are refused in both directions.
"""

import math
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

PICTURES = ("jpeg", "png")
PLAIN = ("bf16", "bytes", "int", "jpeg", "ndarray", "png", "str")
DTYPE_CODES = {
    "uint8": 8,
    "int8": 9,
    "uint16": 16,
    "int16": 17,
    "float16": 18,
    "uint32": 32,
    "int32": 33,
    "float32": 34,
    "uint64": 64,
    "int64": 65,
    "float64": 66,
}
DTYPES = {code: name for name, code in DTYPE_CODES.items()}
SHAPE_DTYPES = ("uint8", "uint16", "uint32", "uint64")
MOST_AXES = 63


@dataclass(frozen=True, slots=True)
class ArrayForm:
    """What an `ndarray` encoding fixes: dtype and shape; None for what each value says itself."""

    dtype: str | None
    shape: tuple[int, ...] | None

    @property
    def size(self) -> int | None:
        """Bytes of every value, where dtype and shape are fixed."""
        if self.dtype is None or self.shape is None:
            return None
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


def check_encoding(encoding: str) -> None:
    """Raises ValueError for an encoding that is not written here, `pkl` among them."""
    if encoding in PLAIN or encoding.partition(":")[0] == "ndarray":
        array_form(encoding)
        return
    raise ValueError(
        f"an MDS column's encoding must be one of {', '.join(PLAIN)} or ndarray:dtype[:shape], "
        f"got {encoding!r}"
    )


def encoded_size(encoding: str) -> int | None:
    """Bytes of every value of this encoding; None where they differ. Raises ValueError."""
    check_encoding(encoding)
    if encoding == "int":
        return 8
    return array_form(encoding).size if encoding.startswith("ndarray") else None


def encode(encoding: str, value: Any) -> bytes:
    """The bytes of one value. Raises ValueError for a value of another type or shape: an `int` is
    a Python int, never numpy's; a picture is a file's bytes; `bf16` takes uint16 bit patterns."""
    if encoding == "int":
        return _encode_int(value)
    if encoding == "str":
        return _checked(value, str, encoding).encode("utf-8")
    if encoding in ("bytes", *PICTURES):
        return _checked(value, bytes, encoding)
    if encoding == "bf16":
        return _encode_bf16(_checked(value, np.ndarray, encoding))
    return _encode_array(array_form(encoding), _checked(value, np.ndarray, encoding))


def decode(encoding: str, data: bytes) -> Any:
    """The value of these bytes. Raises ValueError where they hold none."""
    check_encoding(encoding)
    if encoding == "int":
        if len(data) != 8:
            raise ValueError(f"an int has 8 bytes, got {len(data)}")
        return int.from_bytes(data, "little", signed=True)
    if encoding == "str":
        return data.decode("utf-8")
    if encoding in ("bytes", *PICTURES):
        return data
    return _decode_bf16(data) if encoding == "bf16" else _decode_array(array_form(encoding), data)


def float32_of_bf16(bits: np.ndarray) -> np.ndarray:
    """The float32 values of uint16 bit patterns: a bfloat16 is the upper half of a float32."""
    return (bits.astype("<u4") << 16).view("<f4")


def array_form(encoding: str) -> ArrayForm:
    """What `ndarray`, `ndarray:float16` or `ndarray:uint8:1,8` fixes; nothing for others."""
    kind, _, rest = encoding.partition(":")
    if kind != "ndarray" or not rest:
        return ArrayForm(None, None)
    dtype, _, sides = rest.partition(":")
    if dtype not in DTYPE_CODES:
        raise ValueError(f"{encoding}: dtype must be one of {', '.join(DTYPE_CODES)}")
    if not sides:
        return ArrayForm(dtype, None)
    texts = sides.split(",")
    if not all(text.isascii() and text.isdigit() and int(text) > 0 for text in texts):
        raise ValueError(f"{encoding}: a shape is whole numbers above 0 with commas between")
    return ArrayForm(dtype, tuple(int(text) for text in texts))


def _checked(value: Any, kind: type, encoding: str) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{encoding} takes {kind.__name__}, got {type(value).__name__}")
    return value


def _encode_int(value: Any) -> bytes:
    # numpy's integers would pass for ints in the library and come back as something else; a bool
    # is an int to Python.
    if type(value) is not int:
        raise ValueError(f"int takes a plain int, got {type(value).__name__}")
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"int takes 64 bits, got {value}")
    return value.to_bytes(8, "little", signed=True)


def _encode_bf16(bits: np.ndarray) -> bytes:
    if bits.dtype != np.uint16:
        raise ValueError(f"bf16 takes bit patterns in uint16, got {bits.dtype}")
    head = struct.pack(f"<I{bits.ndim}i", bits.ndim, *bits.shape)
    return head + np.ascontiguousarray(bits, "<u2").tobytes()


def _decode_bf16(data: bytes) -> np.ndarray:
    ndim = int.from_bytes(data[:4], "little")
    start = 4 + 4 * ndim
    if len(data) < start or ndim > MOST_AXES:
        raise ValueError(f"bf16 of {ndim} axes in {len(data)} bytes")
    shape = struct.unpack(f"<{ndim}i", data[4:start])
    return _shaped(data[start:], "<u2", shape)


def _encode_array(form: ArrayForm, values: np.ndarray) -> bytes:
    name = values.dtype.name
    if name not in DTYPE_CODES or form.dtype not in (None, name):
        raise ValueError(f"ndarray takes {form.dtype or ', '.join(DTYPE_CODES)}, got {name}")
    if form.shape not in (None, values.shape):
        raise ValueError(f"ndarray takes shape {form.shape}, got {values.shape}")
    if values.size == 0 or not 1 <= values.ndim <= MOST_AXES:
        raise ValueError(f"ndarray takes 1 to {MOST_AXES} axes and a value, got {values.shape}")
    head = b"" if form.dtype else bytes([DTYPE_CODES[name]])
    if form.shape is None:
        k = _shape_kind(max(values.shape))
        head += bytes([values.ndim << 2 | k])
        head += np.array(values.shape, SHAPE_DTYPES[k]).astype(f"<u{1 << k}").tobytes()
    little = values.dtype.newbyteorder("<")
    return head + np.ascontiguousarray(values, little).tobytes()


def _decode_array(form: ArrayForm, data: bytes) -> np.ndarray:
    place, dtype, shape = 0, form.dtype, form.shape
    if dtype is None:
        dtype, place = DTYPES.get(data[0] if data else -1), 1
        if dtype is None:
            raise ValueError(f"ndarray of unknown dtype code {data[:1]!r}")
    if shape is None:
        axes = data[place] if place < len(data) else 0
        ndim, width = axes >> 2, 1 << (axes & 3)
        end = place + 1 + ndim * width
        if ndim == 0 or end > len(data):
            raise ValueError(f"ndarray of {ndim} axes in {len(data)} bytes")
        shape = tuple(int(side) for side in np.frombuffer(data[place + 1 : end], f"<u{width}"))
        place = end
    return _shaped(data[place:], np.dtype(dtype).newbyteorder("<"), shape)


def _shape_kind(longest: int) -> int:
    return next(k for k in range(4) if longest < 1 << (8 << k))


def _shaped(data: bytes, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
    wanted = math.prod(shape) * np.dtype(dtype).itemsize
    if min(shape, default=0) < 0 or len(data) != wanted:
        raise ValueError(f"an array of shape {shape} has {wanted} bytes, got {len(data)}")
    return np.frombuffer(data, dtype).reshape(shape)
