"""A recipe as a person would have written it: short, with a word on each choice."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from diffprep_assets.recipe.video_defaults import MODELS
from diffprep_assets.recipe.yaml_text import plain_value
from diffprep_assets.run_report import in_one_line
from diffprep_resources.errors import SettingError
from diffprep_resources.sources.names import NOUNS, Media

COMMENT_COLUMN = 36
_PLAIN = re.compile(r"[A-Za-z0-9./~](?:[\w./~+@*=-]|:(?=//))*", re.ASCII)

Line = tuple[str, object, str]
SECTION: dict[Media, str] = {"pictures": "image", "clips": "video"}
FORMATS: dict[Media, Line] = {
    "pictures": ("# formats", ["energon"], "add raw or mds: stored pictures, from the same run"),
    "clips": ("# formats", ["fastvideo"], "add energon_video: tars of latents, from the same run"),
}
CURATE_CLIPS: tuple[Line, ...] = (
    ("# dedup", {"method": "digest"}, "one of those that are the same file"),
    ("# filters", {"min_side": 256}, "also max_aspect, caption_length, banned, where"),
)
CURATE: tuple[Line, ...] = (
    ("# dedup", {"method": "phash"}, "one of those that look alike"),
    ("# filters", {"min_side": 256}, "also max_aspect, caption_length, banned, where"),
)


@dataclass(frozen=True, slots=True)
class RecipeDraft:
    """What `init` decided, section by section, and the words that it puts beside."""

    command: str
    saw: str
    source: Mapping[str, object]
    source_words: str
    data_format: Mapping[str, object]
    output_dir: str
    shard_size: int
    model: Mapping[str, object]
    media: Media
    encoded: Mapping[str, object]
    encoded_words: str
    several_lines: bool = False
    several_captions: bool = False

    def sections(self) -> dict[str, dict[str, object]]:
        """The recipe as data, as far as it is not at its defaults."""
        found = {
            "source": dict(self.source),
            "data_format": dict(self.data_format),
            "output": {"output_dir": self.output_dir, "shard_size": self.shard_size},
            "model": dict(self.model),
            SECTION[self.media]: dict(self.encoded),
        }
        return {name: section for name, section in found.items() if section}


def recipe_text(draft: RecipeDraft) -> str:
    """The YAML. Raises SettingError for a name that a recipe cannot hold."""
    lines = [
        f"# Written by `{in_one_line(draft.command)}`,",
        f"# which saw {in_one_line(draft.saw)}.",
        "# `diffprep check` prints every key with its default; docs/recipes.md explains them.",
        "",
        *_section("source", _with_words(draft.source, draft.source_words)),
    ]
    if draft.data_format:
        own = f"the {NOUNS[draft.media]}'s"
        words = {"caption_key": "the field that holds the caption", "image_key": own}
        named = [(key, value, words.get(key, "")) for key, value in draft.data_format.items()]
        lines += _section("data_format", named)
    lines += _section(
        "output",
        [
            ("output_dir", draft.output_dir, "what the trainer reads"),
            FORMATS[draft.media],
            ("shard_size", draft.shard_size, "samples in a shard"),
            ("# train_split", 0.9, "90% train, the rest halved between val and test"),
        ],
    )
    lines += _section("model", _model(draft.model, draft.media))
    lines += _section(SECTION[draft.media], _with_words(draft.encoded, draft.encoded_words))
    lines += _section("captions", _captions(draft))
    lines += _section("curate", CURATE_CLIPS if draft.media == "clips" else CURATE)
    return "\n".join(lines[:-1]) + "\n"


def _with_words(section: Mapping[str, object], words: str) -> list[Line]:
    """The section's lines, with the words beside its last."""
    last = list(section)[-1]
    return [(key, value, words if key == last else "") for key, value in section.items()]


def _model(model: Mapping[str, object], media: Media) -> list[Line]:
    words = {"model_path": "a diffusers repository: owner/name on the Hub, or a folder"}
    lines = [(key, value, words.get(key, "")) for key, value in model.items()]
    if "model_path" not in model and media == "clips":
        lines.insert(0, ("# model_path", MODELS["t2v"], "that of the workload"))
    elif "model_path" not in model:
        default = "black-forest-labs/FLUX.1-dev"
        lines.insert(0, ("# model_path", default, "gated: accept its licence first"))
    if media == "clips":
        return [*lines, ("# precision", "fp32", "as trainers of clips read it")]
    return [*lines, ("# batch_size", 8, "encoded at once; speed and memory only")]


def _captions(draft: RecipeDraft) -> list[Line]:
    first = "where there are several: first, all or random"
    each = "each: every line is a caption of its own"
    found: list[Line] = []
    if draft.several_captions:
        found.append(("choose", "first", f"some {draft.media} have several; {first}"))
    else:
        found.append(("# choose", "first", first))
    found.append(("lines" if draft.several_lines else "# lines", "whole", each))
    return found


def _section(name: str, lines: Sequence[Line]) -> list[str]:
    found = [f"{name}:"]
    for key, value, words in lines:
        found += _written(key, value, words, indent=2)
    return [*found, ""]


def _written(key: str, value: object, words: str, *, indent: int) -> list[str]:
    pad = " " * indent
    if isinstance(value, Mapping) and not key.startswith("#"):
        found = [f"{pad}{key}:"]
        for inner, part in value.items():
            is_last = inner == list(value)[-1]
            found += _written(inner, part, words if is_last else "", indent=indent + 2)
        return found
    line = f"{pad}{key}: {_value(value)}"
    return [f"{line:<{COMMENT_COLUMN - 2}}  # {words}" if words else line]


def _value(value: object) -> str:
    if not isinstance(value, str):
        return json.dumps(value)
    if "${" in value or not value.isprintable():
        raise SettingError(
            f"{value!r} cannot stand in a recipe: it holds a control character, bytes that are "
            f"no UTF-8, or ${{, which stands for an environment variable; rename it, or make a "
            f"symbolic link with a plain name"
        )
    plain = _PLAIN.fullmatch(value) and plain_value(value) == value
    return value if plain else json.dumps(value, ensure_ascii=False)
