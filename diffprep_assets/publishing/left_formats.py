"""The other outputs of a dataset, and those that its recipe lists no more: nobody keeps them up.

They are not removed, since a training may be reading them: the cards say so, and the run does.
"""

from diffprep_assets.dataset import Dataset
from diffprep_assets.energon_prepare.card import MARKER
from diffprep_assets.energon_prepare.provenance import OtherOutput
from diffprep_assets.recipe.formats import PREPARE_STAGE, Format
from diffprep_resources.storage.atomic import write_bytes


def left_formats(dataset: Dataset) -> tuple[Format, ...]:
    """Formats that were published, are still there, and are listed by the recipe no more."""
    listed = dataset.recipe.output.formats
    left: list[Format] = []
    for format in PREPARE_STAGE:
        layout = dataset.layout.of(format)
        if format not in listed and layout.prepared.exists() and layout.dataset_json.exists():
            left.append(format)
    return tuple(left)


def other_outputs(dataset: Dataset, format: Format) -> tuple[OtherOutput, ...]:
    """The dataset's outputs besides this one, kept up or left."""
    here = dataset.layout.of(format)
    listed, left = dataset.recipe.output.formats, left_formats(dataset)
    return tuple(
        OtherOutput(other, _place(dataset, here.format, other), is_kept_up=other in listed)
        for other in PREPARE_STAGE
        if other != format and (other in listed or other in left)
    )


def left_sentence(dataset: Dataset, format: Format) -> str:
    """What the run tells of a format that was left."""
    folder = dataset.layout.of(format).output_dir
    return (
        f"output.formats lists {format} no more: {folder} stays as it was last published, and "
        f"nobody keeps it up; list it again, or remove it: `diffprep clean {dataset.name} "
        f"--old-formats`"
    )


def note_in_card(dataset: Dataset, format: Format) -> None:
    """Say in the card of a format that was left that it is; a card of somebody's own stays."""
    card = dataset.layout.of(format).card
    text = card.read_text("utf-8") if card.exists() else ""
    note = (
        f"> Not kept up: the recipe lists `{format}` in output.formats no more. What is here stays "
        f"as it was last published, while the dataset goes on."
    )
    if MARKER in text and note not in text:
        write_bytes(card, text.replace(MARKER, f"{MARKER}\n\n{note}", 1).encode())


def _place(dataset: Dataset, format: Format, other: Format) -> str:
    """The other output's folder, seen from this one's."""
    first = dataset.layout.format
    if format == first:
        return other
    return ".." if other == first else f"../{other}"
