"""Every error that diffprep raises on purpose.

DiffprepError
+-- SettingError (also a ValueError)   a setting is wrong or contradicts another; before any work
|   +-- RecipeError                    ... in a recipe file, with file and line
+-- ModelError                         an encoder cannot be found, is not supported, or is refused
+-- SourceAccessError                  a source cannot be reached or listed, or refuses
+-- StageInputError                    what a stage reads is missing or stale; says what to run
+-- SourceChangedError                 source bytes differ from those that `bucket` saw
+-- DatasetLockedError                 another run holds the dataset; names it
+-- SampleReject                       one sample is left out, with a reason code; never ends a run
"""

from typing import Any, Literal, get_args

RejectCode = Literal[
    "unreadable_image",
    "unsupported_format",
    "too_small",
    "too_large",
    "aspect_out_of_range",
    "no_image",
    "no_caption",
    "caption_encoding",
    "unsafe_name",
    "duplicate_key",
    "truncated_archive",
    "unreadable_file",
    "source_missing",
    "video_too_short",
    "video_too_long",
    "unreadable_video",
    "no_video_stream",
    "unsupported_codec",
    "unsupported_colour",
    "encoder_failed",
    "non_finite",
    "duplicate",
    "skip_list",
    "filter_min_side",
    "filter_max_aspect",
    "filter_caption_length",
    "filter_banned",
    "filter_where",
    "filter_null",
    "split_leak",
]
REJECT_CODES: tuple[str, ...] = get_args(RejectCode)


class DiffprepError(Exception):
    """Base of all errors raised on purpose."""


class SettingError(DiffprepError, ValueError):
    """A setting is wrong: what was got, what is allowed, where it stands."""


class RecipeError(SettingError):
    """A recipe file is wrong; the message names file and line."""


class ModelError(DiffprepError):
    """An encoder cannot be found or loaded, or its pipeline class is not supported."""


class SourceAccessError(DiffprepError):
    """A source cannot be reached or listed, or refuses; the message says what helps."""


class StageInputError(DiffprepError):
    """What a stage reads is missing or stale; the message names the command that makes it."""


class SourceChangedError(DiffprepError):
    """Source bytes are not those that `bucket` saw."""


class DatasetLockedError(DiffprepError):
    """Another run holds the dataset's lock; the message names it."""


class SampleReject(DiffprepError):
    """One sample is left out. `transient` ones may succeed when tried again."""

    def __init__(self, code: RejectCode, message: str, *, transient: bool = False) -> None:
        super().__init__(f"{code}: {message}")
        self.code: RejectCode = code
        self.message = message
        self.transient = transient

    def __reduce__(self) -> tuple[Any, ...]:
        """Crosses process boundaries whole."""
        return _reject, (self.code, self.message, self.transient)


def _reject(code: RejectCode, message: str, transient: bool) -> SampleReject:
    return SampleReject(code, message, transient=transient)
