"""docs/errors.md names every class of error, and quotes messages as the code has them."""

import ast
import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path

from diffprep_resources import errors
from diffprep_resources.errors import REJECT_CODES, DiffprepError, SettingError

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "errors.md").read_text("utf-8")
VALUE = "\0"


def rows() -> Iterator[list[str]]:
    for line in PAGE.splitlines():
        if line.startswith("| ") and not line.startswith("|---"):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def test_every_class_of_error_is_there_with_its_exit_code():
    codes = {cells[0].strip("`"): cells[-1] for cells in rows() if len(cells) == 3}
    classes = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    for kind in classes:
        if issubclass(kind, DiffprepError) and kind is not errors.SampleReject:
            assert codes[kind.__name__] == ("2" if issubclass(kind, SettingError) else "1")
    assert codes["SampleReject"] == "none"


def test_every_reject_code_has_its_line_in_the_page_of_rejects():
    page = (ROOT / "docs" / "rejects.md").read_text("utf-8")
    assert [code for code in REJECT_CODES if f"| `{code}` |" not in page] == []


def test_every_quoted_message_is_one_that_the_code_says():
    known = texts_of_the_code() | {os.strerror(number) for number in errno.errorcode}
    quoted = [
        quote
        for cells in rows()
        if len(cells) < 4 and not cells[0].startswith(("`Diffprep", "says", "class"))
        for quote in re.findall(r"`([^`]+)`", cells[0])
        if not hasattr(errors, quote)
    ]
    assert len(quoted) > 40
    unknown = [quote for quote in quoted if not any(is_in(quote, text) for text in known)]
    assert unknown == []


def is_in(quote: str, text: str) -> bool:
    """Whether the pieces of a quote, cut at its dots, stand in a text in this order."""
    at = 0
    for piece in quote.split("..."):
        at = text.find(piece.strip(), at)
        if at < 0:
            return False
    return True


def texts_of_the_code() -> set[str]:
    """Every text in the source, values that it is given left out."""
    found = set()
    for package in ("diffprep_assets", "diffprep_resources"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                found.add(text_of(node))
    return found - {""}


def text_of(node: ast.AST) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or VALUE for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return text_of(node.left) + text_of(node.right)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def test_a_message_that_the_code_does_not_say_is_found_out():
    assert is_in("no ... here", f"there is no {VALUE} to be had here")
    assert not is_in("no ... there", f"there is no {VALUE} to be had here")
