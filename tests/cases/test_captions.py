"""Captions of every kind, in one folder that is looked through: each line of the known cases."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cases.looking import LookedThrough, looked_through, put
from tests.cases.picture_files import encoded, noise

if TYPE_CHECKING:
    from tests.conftest import ProjectFolder

PICTURE = encoded(noise(40, 30), "PNG")
ACCENTS = "une fille \xe0 la fen\xeatre, tr\xe8s fatigu\xe9e"
CYRILLIC = (
    "\u041c\u0430\u043b\u0435\u043d\u044c\u043a\u0430\u044f \u0434\u0435\u0432\u043e\u0447\u043a"
    "\u0430 \u0441\u0438\u0434\u0438\u0442 \u0443 \u043e\u043a\u043d\u0430 \u0438 \u0441\u043c"
    "\u043e\u0442\u0440\u0438\u0442 \u043d\u0430 \u043c\u043e\u0440\u0435"
)

# The content of a caption file, and the caption that it gives.
CLEANED = {
    "bom.txt": (b"\xef\xbb\xbfa cat", "a cat"),
    "crlf.txt": (b"one\r\ntwo\r\n", "one\ntwo"),
    "old_mac.txt": (b"one\rtwo\r", "one\ntwo"),
    "mixed.txt": (b"one\r\ntwo\nthree\rfour\n\n\r\n", "one\ntwo\nthree\nfour"),
    "newlines.txt": (b"a cat\n\n\n", "a cat"),
    "nul.txt": (b"a \0cat\0", "a cat"),
    "verbatim.txt": (b"  a  cat\twith   spaces  ", "  a  cat\twith   spaces  "),
    "html.txt": (b"a &amp; b <i>c</i> (d:1.2) [e]", "a &amp; b <i>c</i> (d:1.2) [e]"),
    "emoji.txt": ("a \U0001f408\u200d\u2b1b cat".encode(), "a \U0001f408\u200d\u2b1b cat"),
    "separator.txt": ("one\u2028two\x0bthree".encode(), "one\u2028two\x0bthree"),
    "UPPER.TXT": (b"upper case suffix", "upper case suffix"),
    "other.caption": (b"in a .caption file", "in a .caption file"),
}
DECODED = {
    "latin1.txt": (ACCENTS.encode("latin-1"), ACCENTS, "cp1252"),
    "cp1252.txt": (
        "the dog\u2019s \u201cnew\u201d caf\xe9".encode("cp1252"),
        "the dog\u2019s \u201cnew\u201d caf\xe9",
        "cp1252",
    ),
    "utf16.txt": ("a cat".encode("utf-16"), "a cat", "utf-16"),
    "utf16be.txt": (b"\xfe\xff" + ACCENTS.encode("utf-16-be"), ACCENTS, "utf-16-be"),
    "utf16_no_mark.txt": (ACCENTS.encode("utf-16-le"), ACCENTS, "utf-16-le"),
    "utf16be_no_mark.txt": (ACCENTS.encode("utf-16-be"), ACCENTS, "utf-16-be"),
    "utf32.txt": (ACCENTS.encode("utf-32"), ACCENTS, "utf-32"),
    "utf16_cjk.txt": ("\u732b\u3068\u72ac".encode("utf-16"), "\u732b\u3068\u72ac", "utf-16"),
    "cyrillic.txt": (CYRILLIC.encode("cp1251"), CYRILLIC, "cp1251"),
}
UNCERTAIN = {
    "odd.txt": bytes([0x80, 0xFE, 0x00, 0xC3, 0x28, 0x81, 0x01]),
    "cut_utf8.txt": "a caf\xe9".encode()[:-1] + b"\xff\xfe\xfd",
    "short_gbk.txt": "\u72d7".encode("gbk"),
    "belied.txt": b"\xff\xfea",
    "binary.txt": PICTURE,
    "latin1.json": b'{"caption": "caf\xe9"}',
    "surrogate.json": b'{"caption": "half \\ud800 a pair"}',
}
MISSING = {
    "none": {},
    "empty": {"empty.txt": b""},
    "blank": {"blank.txt": b" \t\r\n \n"},
    "only_mark": {"only_mark.txt": b"\xef\xbb\xbf"},
    "only_nul": {"only_nul.txt": b"\0\0\0"},
    "folder": {"folder.txt/x.md": b"a folder named like its caption"},
    "broken": {"broken.json": b'{"caption": "a cat"'},
    "no_json": {"no_json.json": b"a cat"},
    "deep_json": {"deep_json.json": b"[" * 100_000},
    "no_key": {"no_key.json": {"title": "a cat"}},
    "object": {"object.json": {"caption": {"en": "a cat"}}},
    "true": {"true.json": {"caption": True}},
    "null": {"null.json": {"caption": None}},
    "nulls": {"nulls.json": {"caption": [None, "", "  ", float("nan")]}},
    "nothing": {"nothing.json": []},
}
IN_JSON = {
    "plain.json": ({"caption": "a cat"}, "a cat"),
    "text.json": ({"other": 1, "text": "a dog"}, "a dog"),
    "bare.json": (b'"just text"', "just text"),
    "number.json": ({"caption": 7}, "7"),
    "decimal.json": ({"caption": 1.5}, "1.5"),
    "zero.json": ({"caption": 0}, "0"),
    "list.json": ({"caption": [None, "", "first", "second"]}, "first"),
    "nested.json": ({"caption": [[], [None, ["deep"]], "later"]}, "deep"),
    "numbers.json": ({"caption": [None, 3, "x"]}, "3"),
    "mark.json": (b'\xef\xbb\xbf{"caption": "marked"}', "marked"),
    "wide.json": ('{"caption": "wide"}'.encode("utf-16"), "wide"),
    "escaped.json": (b'{"caption": "\\ud83d\\udc08 a cat\\r\\n"}', "\U0001f408 a cat"),
}


def with_pictures(root: Path, captions: dict[str, object], more: tuple[str, ...] = ()) -> None:
    """The caption files, and a picture for each stem."""
    put(root, captions)
    stems = {name.split("/")[0].rpartition(".")[0] for name in captions} | set(more)
    put(root, {f"{stem}.png": PICTURE for stem in stems})


def key_of(name: str) -> str:
    return f"{name.rpartition('.')[0]}.png"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> LookedThrough:
    """All the captions of this file, looked through once with a recipe's defaults."""
    folder = tmp_path_factory.mktemp("captions")
    captions: dict[str, object] = {name: data for name, (data, _) in CLEANED.items()}
    captions |= {f"d_{name}": data for name, (data, _, _) in DECODED.items()}
    captions |= {f"u_{name.replace('.', '_x.')}": data for name, data in UNCERTAIN.items()}
    captions |= {f"j_{name}": content for name, (content, _) in IN_JSON.items()}
    with_pictures(folder / "pictures", captions)
    for stem, files in MISSING.items():
        put(folder / "pictures", {f"m_{name}": content for name, content in files.items()})
        put(folder / "pictures", {f"m_{stem}.png": PICTURE})
    return looked_through(folder)


@pytest.mark.parametrize("name", CLEANED)
def test_bom_line_ends_trailing_newlines_and_nul_are_cleaned_and_the_rest_is_verbatim(
    found: LookedThrough, name: str
) -> None:
    row = found.rows[key_of(name)]
    assert (row.code, row.caption, row.notes) == (None, CLEANED[name][1], ())


@pytest.mark.parametrize("name", DECODED)
def test_other_encodings_are_decoded_when_certain_with_a_note(
    found: LookedThrough, name: str
) -> None:
    _, text, encoding = DECODED[name]
    row = found.rows[f"d_{key_of(name)}"]
    assert (row.code, row.caption) == (None, text)
    assert row.notes[0].startswith(f"caption read as {encoding}")


@pytest.mark.parametrize("name", UNCERTAIN)
def test_an_encoding_that_is_not_certain_is_a_reject(found: LookedThrough, name: str) -> None:
    row = found.rows[f"u_{key_of(name.replace('.', '_x.'))}"]
    assert row.code == "caption_encoding"


@pytest.mark.parametrize("stem", MISSING)
def test_a_missing_or_empty_caption_is_no_caption(found: LookedThrough, stem: str) -> None:
    assert found.codes[f"m_{stem}.png"] == "no_caption"


def test_an_empty_caption_is_kept_only_where_the_recipe_allows_it(tmp_path: Path) -> None:
    for stem, files in MISSING.items():
        put(tmp_path / "pictures", {f"{stem}.png": PICTURE, **files})
    allowed = looked_through(tmp_path, captions={"allow_empty": True})
    kept = {"empty.png", "blank.png", "only_mark.png", "only_nul.png", "nulls.png"}
    assert allowed.captions == dict.fromkeys(kept, "")
    assert set(allowed.codes.values()) == {"no_caption"}


@pytest.mark.parametrize("name", IN_JSON)
def test_captions_in_json_and_the_first_of_a_list_without_nulls(
    found: LookedThrough, name: str
) -> None:
    assert found.captions[f"j_{key_of(name)}"] == IN_JSON[name][1]


def test_of_a_list_the_recipe_takes_first_all_or_one_by_seed(tmp_path: Path) -> None:
    lists: dict[str, object] = {
        f"{n}.json": {"caption": [None, "a", "", "b", None, "c"]} for n in range(40)
    }
    with_pictures(tmp_path / "pictures", lists)
    first = looked_through(tmp_path, captions={"choose": "first"})
    assert set(first.captions.values()) == {"a"}
    assert first.rows["0.png"].notes == ("1 of 3 captions taken (first)",)
    every = looked_through(tmp_path, captions={"choose": "all"})
    assert len(every.captions) == 120
    assert [every.captions[f"7.png::c{n}"] for n in range(3)] == ["a", "b", "c"]
    assert {row.group for key, row in every.rows.items() if key.startswith("7.")} == {"7.png"}
    drawn = looked_through(tmp_path, captions={"choose": "random"})
    assert set(drawn.captions.values()) == {"a", "b", "c"}
    again = looked_through(tmp_path, "again", captions={"choose": "random"})
    assert again.captions == drawn.captions


def test_a_dotted_path_into_json_finds_the_caption_and_a_number_becomes_text(
    tmp_path: Path,
) -> None:
    captions: dict[str, object] = {
        "a.json": {"meta": {"caption": "deep"}, "caption": "shallow"},
        "number.json": {"meta": {"caption": 12}},
        "missing.json": {"meta": {"title": "x"}},
        "elsewhere.json": {"caption": "shallow"},
        "dots.json": {"meta.caption": "a key with a dot"},
        "list.json": {"meta": {"caption": [None, "of a list"]}},
        "text.json": {"meta": json.dumps({"caption": "json in json"})},
        "scalar.json": {"meta": 3},
        "both.json": {"meta": {"caption": "from json"}},
    }
    with_pictures(tmp_path / "pictures", captions)
    put(tmp_path / "pictures", {"both.txt": "from a text file"})
    for key in ("json.meta.caption", "meta.caption"):
        found = looked_through(tmp_path, data_format={"caption_key": key})
        expected = {
            "a.png": "deep",
            "number.png": "12",
            "dots.png": "a key with a dot",
            "list.png": "of a list",
            "text.png": "json in json",
            "both.png": "from json" if key.startswith("json.") else "from a text file",
        }
        assert found.captions == expected
        missing = ("elsewhere.png", "missing.png", "scalar.png")
        assert found.codes == dict.fromkeys(missing, "no_caption")
    (tmp_path / "pictures" / "a.json").write_text('{"clips": [{"caption": "by number"}]}')
    numbered = looked_through(tmp_path, data_format={"caption_key": "json.clips.0.caption"})
    assert numbered.captions["a.png"] == "by number"


def test_several_lines_are_one_caption_or_one_each_by_the_recipe(tmp_path: Path) -> None:
    with_pictures(tmp_path / "pictures", {"a.txt": b"one\r\n\r\ntwo\n   \nthree\n"})
    whole = looked_through(tmp_path, captions={"lines": "whole"})
    assert whole.captions == {"a.png": "one\n\ntwo\n   \nthree"}
    assert whole.rows["a.png"].notes == ()
    each = looked_through(tmp_path, captions={"lines": "each", "choose": "all"})
    assert list(each.captions.values()) == ["one", "two", "three"]
    first = looked_through(tmp_path, captions={"lines": "each"})
    assert first.captions == {"a.png": "one"}
    # Never the first in silence.
    assert first.rows["a.png"].notes == ("1 of 3 captions taken (first)",)


def test_a_caption_longer_than_an_encoder_takes_is_stored_whole_and_counted_once(
    project: "ProjectFolder",
) -> None:
    drawings = project.write_pictures(range(6))
    long = "word " * 299 + "end"
    for picture in drawings[:2]:
        (project.pictures / "captions" / f"{picture.stem}.txt").write_text(long)
    project.write_recipe()
    report = project.run()
    assert report.ok
    shown = "\n".join(line for line in report.lines() if isinstance(line, str))
    assert shown.count("T5 sees 24 tokens: ") == 1
    assert shown.count("CLIP sees 77 tokens: 2 of 6 captions (33.3%) are cut short") == 1
    assert "CLIP sees 77 tokens: 2 of 6 captions (33.3%)" in project.layout().card.read_text()
    tars = b"".join(path.read_bytes() for path in project.layout().output_dir.glob("*.tar"))
    assert tars.count(long.encode()) >= 2
    # Pruned row files leave the counts in the shards' records.
    assert not list(project.layout().text("x").parent.glob("g*.safetensors"))
    assert project.run().truncated == report.truncated
    assert {item.encoder: item.truncated for item in report.truncated}["clip"] == 2


SCRIPT = """\
import locale, sys
from pathlib import Path
from tests.cases.looking import looked_through
found = looked_through(Path(sys.argv[1]))
print(ascii([locale.getencoding(), sorted(found.captions.items()), sorted(found.codes.items())]))
"""


def test_the_locale_changes_nothing(tmp_path: Path) -> None:
    captions: dict[str, object] = {
        f"{n}_{name}": d for n, (name, (d, _)) in enumerate(CLEANED.items())
    }
    captions |= {f"d{n}_{name}": d for n, (name, (d, _, _)) in enumerate(DECODED.items())}
    captions |= {"caf\xe9 \u732b.txt": ACCENTS, "u.txt": UNCERTAIN["odd.txt"]}
    with_pictures(tmp_path / "pictures", captions)
    here = looked_through(tmp_path)
    environment = os.environ | {
        "LC_ALL": "C",
        "LANG": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONIOENCODING": "cp949",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    expected = [sorted(here.captions.items()), sorted(here.codes.items())]
    assert "ANSI" in run.stdout or "646" in run.stdout
    assert run.stdout.strip().endswith(f"{ascii(expected)[1:]}")
