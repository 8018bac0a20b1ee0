"""The further captions of a shard's members, out of the source's own columns."""

from collections.abc import Sequence

from diffprep_assets.layout import Layout
from diffprep_assets.shard_plan.members import Member
from diffprep_assets.source_columns.table import read_field_rows, read_head
from diffprep_resources.errors import SettingError, StageInputError


def further_captions(
    layout: Layout, members: Sequence[Member], names: Sequence[str]
) -> dict[str, dict[str, str]]:
    """By source_key the text of each column in `names`, "" where the source has none: PRX draws an
    empty caption next to never. Raises SettingError for a column that holds no text."""
    if not names:
        return {member.planned.sample.source_key: {} for member in members}
    captions: dict[str, dict[str, str]] = {}
    wanted = {member.planned.sample.source_key for member in members}
    for part in sorted({member.planned.sample.part for member in members}):
        path = layout.source_columns(part)
        head = read_head(path)
        if head is None:
            raise StageInputError(
                f"source_columns of part {part} is missing; run `diffprep run {layout.dataset}`"
            )
        places = [(name, head["names"].index(name)) for name in names]
        for row in read_field_rows(path):
            if row.source_key in wanted:
                texts = {name: _text(row.values[place], name) for name, place in places}
                captions[row.source_key] = texts
    return captions


def _text(value: object, name: str) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    raise SettingError(
        f"mds.caption_columns names {name}, which holds {type(value).__name__}, not text: "
        f"{value!r:.80}; name a column of text"
    )
