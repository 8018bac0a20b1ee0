"""Which field of a sample is the picture or clip and which the caption; how a value is looked up.

A key is a column, a member's suffix, or a dotted path into JSON (`json.meta.caption`).
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from diffprep_resources.errors import SampleReject
from diffprep_resources.sources.names import Media

DEFAULT_IMAGE_KEYS = ("image", "jpg", "jpeg", "png", "webp", "img", "photo")
DEFAULT_VIDEO_KEYS = ("video", "mp4", "clip", "webm", "mkv", "mov", "avi")
_DEFAULT_KEYS: dict[Media, tuple[str, ...]] = {
    "pictures": DEFAULT_IMAGE_KEYS,
    "clips": DEFAULT_VIDEO_KEYS,
}
DEFAULT_CAPTION_KEYS = ("caption", "text", "txt", "description", "prompt")

_DEEPEST_NAME = 4


@dataclass(frozen=True, slots=True)
class FieldKeys:
    """Keys in the order in which they are tried; `chosen_*`: the recipe named them itself.

    `media` is what a sample is; with clips, `image_keys` name them.
    """

    image_keys: tuple[str, ...] = DEFAULT_IMAGE_KEYS
    caption_keys: tuple[str, ...] = DEFAULT_CAPTION_KEYS
    chosen_images: bool = False
    chosen_captions: bool = False
    media: Media = "pictures"


def field_keys(
    *,
    image_key: str | None = None,
    caption_key: str | None = None,
    image_keys: Sequence[str] | None = None,
    caption_keys: Sequence[str] | None = None,
    media: Media = "pictures",
) -> FieldKeys:
    """The keys of a recipe's `data_format`: the single key alone, else the list, else defaults."""
    default = _DEFAULT_KEYS[media]
    images = _chosen(image_key, image_keys)
    if images in ((), DEFAULT_IMAGE_KEYS):
        images = default
    captions = _chosen(caption_key, caption_keys)
    return FieldKeys(
        image_keys=images,
        caption_keys=captions or DEFAULT_CAPTION_KEYS,
        chosen_images=images != default,
        chosen_captions=captions not in ((), DEFAULT_CAPTION_KEYS),
        media=media,
    )


def _chosen(single: str | None, several: Sequence[str] | None) -> tuple[str, ...]:
    return (single,) if single else tuple(several or ())


def lookup(value: object, path: str) -> object:
    """What stands at the dotted `path` of nested objects and lists, or None.

    A name that itself holds dots is found too. Text on the way is read as JSON; where it is none,
    the path leads nowhere.
    """
    if not path or value is None:
        return value
    if isinstance(value, str | bytes):
        try:
            return lookup(json.loads(value), path)
        except (ValueError, RecursionError):
            return None
    if isinstance(value, Mapping):
        for name, rest in splits(path):
            if name in value and (found := lookup(value[name], rest)) is not None:
                return found
        return None
    return _in_list(value, path) if isinstance(value, list) else None


def _in_list(values: list[object], path: str) -> object:
    name, _, rest = path.partition(".")
    if re.fullmatch("[0-9]{1,9}", name) and int(name) < len(values):
        return lookup(values[int(name)], rest)
    return None


def splits(path: str) -> Iterable[tuple[str, str]]:
    """Every (name, rest) of a dotted path, the longest name first."""
    yield path, ""
    end = path.rfind(".")
    while end > 0:
        yield path[:end], path[end + 1 :]
        end = path.rfind(".", 0, end)


def first_caption(value: object, keys: Iterable[str]) -> object:
    """The caption in a parsed JSON value: itself, or what the first key that leads anywhere finds.

    Objects are not captions: a key that leads to one is passed over.
    """
    if not isinstance(value, Mapping):
        return value
    for key in keys:
        found = field_of(value, key)
        if found is not None and not isinstance(found, Mapping):
            return found
    return None


def field_of(value: object, name: str) -> object:
    """What a parsed JSON object or row holds under `name`, with or without a leading `json.`."""
    found = lookup(value, name)
    if found is None and name.startswith("json."):
        return lookup(value, name.removeprefix("json."))
    return found


def names_in(value: object, *, prefix: str = "", depth: int = 0) -> set[str]:
    """Dotted paths of what nested objects hold, text that is a JSON object among them."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {prefix}
    if not isinstance(value, Mapping) or depth == _DEEPEST_NAME:
        return {prefix} if prefix else set()
    found: set[str] = set()
    for key, inner in value.items():
        path = f"{prefix}.{key}" if prefix else str(key)
        found |= names_in(inner, prefix=path, depth=depth + 1)
    return found


def parse_json(data: bytes, *, where: str) -> object:
    """The parsed JSON. Raises SampleReject: caption_encoding, or no_caption for other text."""
    try:
        return json.loads(data)
    except UnicodeDecodeError as error:
        raise SampleReject("caption_encoding", f"{where} is not UTF-8: {error.reason}") from error
    except (ValueError, RecursionError) as error:
        raise SampleReject("no_caption", f"{where} is not JSON: {error}") from error
