import numpy as np
import pytest

from diffprep_resources.captions.encoding import MAX_GUESSED_BYTES, decode_text
from diffprep_resources.errors import SampleReject

TEXT = "It\u2019s a caf\xe9 \u732b \U0001f600"
SENTENCES = {
    "cp1251": "Маленькая девочка в красном платье стоит на берегу моря и смотрит на закат",
    "koi8-r": "Маленькая девочка в красном платье стоит на берегу моря и смотрит на закат",
    "cp1253": "Ένα μικρό κορίτσι με κόκκινο φόρεμα στέκεται στην παραλία και κοιτάζει",
    "cp1255": "ילדה קטנה בשמלה אדומה עומדת על חוף הים ומסתכלת על השקיעה. לידה יושב כלב",
    "cp932": "赤いドレスを着た小さな女の子が海辺に立って夕日を見ています。隣には犬が座っています。",
    "gb18030": "一个穿着红色裙子的小女孩站在海边看日落。她旁边坐着一只大黑狗,背景中可以看到渔船。",
}


def text_or_code(data: bytes) -> str:
    try:
        return decode_text(data).text
    except SampleReject as reject:
        return reject.code


@pytest.mark.parametrize(
    ("encoding", "mark"),
    [
        ("utf-8", b"\xef\xbb\xbf"),
        ("utf-16-le", b"\xff\xfe"),
        ("utf-16-be", b"\xfe\xff"),
        ("utf-32-le", b"\xff\xfe\0\0"),
        ("utf-32-be", b"\0\0\xfe\xff"),
    ],
)
def test_a_byte_order_mark_decides(encoding, mark):
    decoded = decode_text(mark + TEXT.encode(encoding))
    assert decoded.text == TEXT
    assert decoded.note == (None if encoding == "utf-8" else f"caption read as {encoding}")


@pytest.mark.parametrize("data", [b"\xff\xfea\0b", b"\xfe\xff\xd8\x00", b"\xef\xbb\xbf\xff"])
def test_bytes_that_belie_their_mark_are_rejected(data):
    with pytest.raises(SampleReject, match="caption_encoding: the caption begins with the mark of"):
        decode_text(data)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_wide_text_without_a_mark_is_told_by_its_zero_bytes(encoding):
    text = "A man\u2019s caf\xe9 on the corner"
    decoded = decode_text(text.encode(encoding))
    assert (decoded.text, decoded.note) == (text, f"caption read as {encoding}")


def test_utf8_is_taken_without_a_note():
    assert decode_text(TEXT.encode()) == decode_text(b"\xef\xbb\xbf" + TEXT.encode())
    assert decode_text(b"a c\0at").text == "a c\0at"


@pytest.mark.parametrize("encoding", SENTENCES)
def test_a_sentence_in_another_script_is_decoded_with_a_note(encoding):
    decoded = decode_text(SENTENCES[encoding].encode(encoding))
    assert decoded.text == SENTENCES[encoding]
    assert decoded.note is not None


@pytest.mark.parametrize("encoding", SENTENCES)
@pytest.mark.parametrize("length", [1, 2, 3, 5, 8, 12, 20])
def test_a_short_text_in_another_script_is_right_or_rejected(encoding, length):
    for start in range(0, len(SENTENCES[encoding]) - length, 3):
        text = SENTENCES[encoding][start : start + length]
        data = text.encode(encoding)
        # A few such texts are UTF-8 by chance.
        assert text_or_code(data) in (text, "caption_encoding", data.decode(errors="replace")), data


@pytest.mark.parametrize(
    "data", [b"\xff", b"\x80\x81\x8d", b"\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01", b"caf\xe9\x81"]
)
def test_bytes_of_no_certain_encoding_are_rejected_with_the_place(data):
    with pytest.raises(SampleReject, match=r"not UTF-8 \(byte 0x.. at offset \d") as caught:
        decode_text(data)
    assert caught.value.code == "caption_encoding"


def test_random_bytes_are_text_or_a_reject():
    rng = np.random.default_rng(0)
    found = [text_or_code(rng.bytes(int(rng.integers(1, 120)))) for _ in range(200)]
    assert found.count("caption_encoding") > 150


def test_nothing_is_guessed_for_a_file_too_long_to_be_a_caption():
    text = "caf\xe9 " * (MAX_GUESSED_BYTES // 5 + 1)
    with pytest.raises(SampleReject, match="caption_encoding"):
        decode_text(text.encode("cp1252"))
    assert decode_text(text.encode()).text == text
