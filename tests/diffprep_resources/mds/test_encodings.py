import numpy as np
import pytest

from diffprep_resources.mds.encodings import (
    check_encoding,
    decode,
    encode,
    encoded_size,
    float32_of_bf16,
)

ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    ("encoding", "value", "data"),
    [
        ("int", -2, b"\xfe" + b"\xff" * 7),
        ("int", 2**63 - 1, b"\xff" * 7 + b"\x7f"),
        ("str", "na\u00efve", b"na\xc3\xafve"),
        ("bytes", b"\0\1", b"\0\1"),
        ("jpeg", b"\xff\xd8", b"\xff\xd8"),
        ("png", b"\x89PNG", b"\x89PNG"),
    ],
)
def test_a_value_has_the_bytes_of_the_format_and_comes_back(
    encoding: str, value: object, data: bytes
):
    assert encode(encoding, value) == data
    assert decode(encoding, data) == value


@pytest.mark.parametrize(
    ("encoding", "value", "head"),
    [
        ("ndarray", ARRAY, bytes([34, 2 << 2, 2, 3])),
        ("ndarray:float32", ARRAY, bytes([2 << 2, 2, 3])),
        ("ndarray:float32:2,3", ARRAY, b""),
        ("ndarray:uint8", np.ones(300, np.uint8), bytes([1 << 2 | 1]) + b"\x2c\x01"),
        ("ndarray:uint8", np.ones(70_000, np.uint8), bytes([1 << 2 | 2]) + b"\x70\x11\x01\0"),
    ],
)
def test_an_array_says_only_what_its_encoding_does_not_fix(
    encoding: str, value: np.ndarray, head: bytes
):
    data = encode(encoding, value)
    assert data == head + value.tobytes()
    assert np.array_equal(decode(encoding, data), value)
    assert decode(encoding, data).dtype == value.dtype


def test_bf16_holds_bit_patterns_behind_their_shape():
    bits = np.array([[0x3F80, 0xC000]], np.uint16)
    data = encode("bf16", bits)
    assert data == b"\2\0\0\0\1\0\0\0\2\0\0\0\x80\x3f\0\xc0"
    assert np.array_equal(decode("bf16", data), bits)
    assert float32_of_bf16(bits).tolist() == [[1.0, -2.0]]


@pytest.mark.parametrize(
    ("encoding", "value"),
    [
        ("int", np.int64(3)),
        ("int", 3.0),
        ("int", True),
        ("int", 2**63),
        ("str", b"text"),
        ("jpeg", "text"),
        ("bf16", ARRAY),
        ("ndarray", ARRAY.astype(np.complex64)),
        ("ndarray", np.float32(1)),
        ("ndarray", np.zeros((0, 3), np.float32)),
        ("ndarray:uint8", ARRAY),
        ("ndarray:float32:3,2", ARRAY),
    ],
)
def test_a_value_that_would_come_back_as_another_is_refused(encoding: str, value: object):
    with pytest.raises(ValueError, match="takes"):
        encode(encoding, value)


@pytest.mark.parametrize(
    "encoding",
    ["pkl", "webp", "uint8", "ndarray:complex64", "ndarray:int8:0,3", "ndarray:int8:x"],
)
def test_an_encoding_that_is_not_written_is_refused(encoding: str):
    with pytest.raises(ValueError, match=encoding):
        check_encoding(encoding)


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("int", b"\0" * 4),
        ("str", b"\xff"),
        ("ndarray", b""),
        ("ndarray", bytes([7, 4, 1, 0])),
        ("ndarray", bytes([8, 0])),
        ("ndarray", bytes([8, 8, 2])),
        ("ndarray", bytes([8, 4, 2, 1])),
        ("bf16", b"\1\0\0"),
        ("bf16", b"\xff\xff\xff\xff"),
        ("bf16", b"\1\0\0\0\xff\xff\xff\xff"),
    ],
)
def test_bytes_that_hold_no_value_are_refused(encoding: str, data: bytes):
    with pytest.raises(ValueError, match=r"bytes|code|decode"):
        decode(encoding, data)


def test_only_values_of_one_size_have_a_fixed_size():
    fixed = {"int": 8, "ndarray:int32:2": 8, "ndarray:float64:1,3": 24}
    assert {encoding: encoded_size(encoding) for encoding in fixed} == fixed
    assert {encoded_size(encoding) for encoding in ("str", "ndarray:int32", "bf16")} == {None}
