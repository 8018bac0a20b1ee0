"""Pages that hold all they show."""

import re
import subprocess
import sys
from base64 import b64decode
from importlib.resources import files

import pytest
from jinja2 import UndefinedError
from PIL import Image

from diffprep_assets.pages.page import picture_uri, render_page
from diffprep_resources.pictures.contact_sheet import Tile, contact_sheet


def test_a_page_asks_nothing_of_any_server():
    page = render_page("base")
    assert page.startswith("<!doctype html>")
    assert "prefers-color-scheme: dark" in page
    assert not re.findall(r"(?:src|href)=\"(?!data:|#)|url\(|@import|<script", page)


def test_a_value_that_is_missing_is_an_error():
    with pytest.raises(UndefinedError):
        render_page("plan")


def test_a_picture_is_written_into_the_page():
    jpeg = contact_sheet([Tile(Image.new("RGB", (9, 9)))], columns=1, side=30)
    head, _, body = picture_uri(jpeg).partition(",")
    assert head == "data:image/jpeg;base64"
    assert b64decode(body) == jpeg


def test_templates_are_packed_with_the_package():
    names = {path.name for path in (files("diffprep_assets") / "pages").iterdir()}
    text = (files("diffprep_assets") / ".." / "pyproject.toml").read_text("utf-8")
    assert {"base.html.j2", "style.css.j2"} <= names
    assert '"diffprep_assets.pages" = ["*.j2"]' in text


def test_jinja_loads_only_when_a_page_is_made():
    code = "import sys, diffprep_assets.pages.page; print('jinja2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
