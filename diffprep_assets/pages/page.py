"""Self-contained HTML pages: templates beside this file, pictures inside, no request to anywhere.

A page's template extends `base.html.j2`, which holds the style, light and dark, and fills the
blocks `title`, `lead` and `content`; what is inserted is escaped.
"""

from base64 import b64encode
from functools import cache
from typing import TYPE_CHECKING, Any

from diffprep_assets.quantities import bytes_text, duration_text, share_text

if TYPE_CHECKING:
    from jinja2 import Environment


def render_page(template: str, **values: Any) -> str:
    """The page of `<template>.html.j2`, which sees `values` and the filters `bytes`, `duration`,
    `share` and `number`. Raises jinja2.UndefinedError for a value that is missing."""
    return _environment().get_template(f"{template}.html.j2").render(**values)


def picture_uri(jpeg: bytes) -> str:
    """A JPEG as the source of an <img>."""
    return f"data:image/jpeg;base64,{b64encode(jpeg).decode('ascii')}"


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("diffprep_assets", "pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "bytes": bytes_text,
        "duration": duration_text,
        "share": share_text,
        "number": "{:,}".format,
    }
    return environment
