"""What `diffprep init` saw and wrote, for people and for scripts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import median
from typing import Any

from rich.markup import escape
from rich.table import Table

from diffprep_assets.changes import plural
from diffprep_assets.recipe.video import Video
from diffprep_assets.source_look.look import Look
from diffprep_assets.source_look.recipe_text import RecipeDraft
from diffprep_resources.errors import REJECT_CODES
from diffprep_resources.sources.names import NOUNS

# Width to height, narrow to wide.
RATIOS = ((1, 2), (9, 16), (2, 3), (3, 4), (4, 5), (1, 1), (5, 4), (4, 3), (3, 2), (16, 9), (2, 1))
NEAR = 1.12
Size = tuple[int, int]


@dataclass(frozen=True, slots=True)
class InitReport:
    """A look, what looked odd in it, and the recipe that was written."""

    dataset: str
    recipe: str
    place: str
    look: Look
    odd: Sequence[str]
    draft: RecipeDraft
    next_commands: Sequence[str]

    def as_json(self) -> dict[str, Any]:
        """The object that `init --json` prints; sizes are [width, height] in pixels."""
        look = self.look
        codes = Counter(row.code for row in look.rows if row.code is not None)
        return {
            "dataset": self.dataset,
            "recipe": self.recipe,
            "source": dict(self.draft.source),
            "kind": look.kind,
            "files": look.files,
            "samples": look.samples,
            "samples_are_estimated": look.is_estimate,
            "looked_at": len(look.rows),
            "sizes": {name: list(size) for name, size in extremes(look.sizes).items()},
            "aspects": aspects(look.sizes),
            "captions": {
                "places": dict(look.captions_at),
                "without": look.without_caption,
                "of": look.captions_looked_for,
                **_lengths(look),
            },
            "rejects": {code: codes[code] for code in REJECT_CODES if codes[code]},
            "odd": list(self.odd),
            "settings": self.draft.sections(),
            "next": list(self.next_commands),
        }

    def lines(self) -> list[Table | str]:
        """What a person is told."""
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(style="bold", no_wrap=True)
        table.add_column()
        for name, words in self._facts():
            table.add_row(name, escape(words))
        lines: list[Table | str] = [table]
        if self.odd:
            lines.append("\n[bold]What looks odd[/]")
            odd = Table.grid(padding=(0, 1, 0, 0))
            odd.add_column(style="yellow", no_wrap=True)
            odd.add_column()
            for sentence in self.odd:
                odd.add_row("-", escape(sentence))
            lines.append(odd)
        else:
            lines.append("\nNothing looks odd.")
        lines.append(f"\n[green]wrote[/] {escape(self.recipe)}")
        lines.append("Next:")
        lines += [f"  {escape(command)}" for command in self.next_commands]
        return lines

    def _facts(self) -> list[tuple[str, str]]:
        look, sizes = self.look, extremes(self.look.sizes)
        looked = f"looked at {len(look.rows):,}"
        if look.opened_files < look.files and not look.is_loose:
            looked += f" from {look.opened_files:,} of them"
        facts = [
            ("source", f"{self.draft.source['type']}, {self.place}"),
            ("samples", f"{saw(look)}; {looked}"),
        ]
        if sizes:
            named = ", ".join(f"{name} {w:,} x {h:,}" for name, (w, h) in sizes.items())
            facts.append(("sizes", named))
            shares = aspects(look.sizes).items()
            facts.append(("aspects", ", ".join(f"{name} {share:.0%}" for name, share in shares)))
        facts.append(("captions", _caption_words(look)))
        if look.media == "clips" and (lengths := _clip_lengths(look)):
            facts.append(("lengths", lengths))
        facts.append(("encoded", f"{_encoded_words(self.draft)}; {self.draft.encoded_words}"))
        output = f"{self.draft.shard_size:,} samples a shard, in {self.draft.output_dir}"
        return [*facts, ("output", output)]


def saw(look: Look) -> str:
    """How many samples, in words."""
    if look.is_loose:
        return f"{look.files:,} {plural(NOUNS[look.media], look.files)}"
    about = "about " if look.is_estimate else ""
    noun = "tar" if look.kind == "tar" else "parquet file"
    return f"{about}{look.samples:,} samples in {look.files:,} {plural(noun, look.files)}"


def extremes(sizes: Sequence[Size]) -> dict[str, Size]:
    """The smallest, the middle and the largest size by area; empty where there is none."""
    if not sizes:
        return {}
    ordered = sorted(sizes, key=lambda size: (size[0] * size[1], size))
    middle = ordered[(len(ordered) - 1) // 2]
    return {"smallest": ordered[0], "median": middle, "largest": ordered[-1]}


def aspects(sizes: Sequence[Size]) -> dict[str, float]:
    """The share of each usual aspect ratio, narrow to wide; beyond them `narrower` and `wider`."""
    counts = Counter(_aspect(width / height) for width, height in sizes)
    names = ["narrower", *(f"{w}:{h}" for w, h in RATIOS), "wider"]
    return {name: round(counts[name] / len(sizes), 4) for name in names if counts[name]}


def _aspect(ratio: float) -> str:
    width, height = min(
        RATIOS, key=lambda pair: max(ratio * pair[1], pair[0]) / min(ratio * pair[1], pair[0])
    )
    off = ratio * height / width
    if off * NEAR < 1:
        return "narrower"
    return "wider" if off > NEAR else f"{width}:{height}"


def _lengths(look: Look) -> dict[str, float | None]:
    captions = [row.caption for row in look.kept if row.caption is not None]
    if not captions:
        return {"median_words": None, "median_characters": None}
    return {
        "median_words": median(len(caption.split()) for caption in captions),
        "median_characters": median(map(len, captions)),
    }


def _caption_words(look: Look) -> str:
    if not look.captions_looked_for:
        return "not looked at"
    found = ", ".join(f"{count:,} in {place}" for place, count in sorted(look.captions_at.items()))
    if not look.is_loose or sum(look.captions_at.values()) < look.files:
        found += f" (of {look.captions_looked_for:,})"
    words = [found, f"{look.without_caption:,} without" if look.without_caption else "none missing"]
    lengths = _lengths(look)
    if lengths["median_words"] is not None:
        words.append(
            f"median {lengths['median_words']:g} words, {lengths['median_characters']:g} characters"
        )
    return "; ".join(words)


def _clip_lengths(look: Look) -> str:
    """Seconds and rates of the clips that could be read, in words; empty where none could."""
    lengths = sorted(row.duration_s for row in look.kept if row.duration_s is not None)
    if not lengths:
        return ""
    rates = Counter(f"{float(Fraction(row.fps)):.4g} fps" for row in look.kept if row.fps)
    named = {"shortest": lengths[0], "median": median(lengths), "longest": lengths[-1]}
    words = [f"{name} {seconds:.2f} s" for name, seconds in named.items()]
    return ", ".join([*words, *(f"{rate} {count:,}" for rate, count in rates.most_common(3))])


def _encoded_words(draft: RecipeDraft) -> str:
    """The sizes that a recipe chose, in words."""
    if draft.media == "pictures":
        return _image_words(draft.encoded)
    video = Video.model_validate(draft.encoded)
    sizes = " and ".join(f"{width}x{height}" for width, height in video.sizes)
    return f"{video.num_frames} frames of {sizes} pixels at {float(video.train_fps):g} fps"


def _image_words(image: Mapping[str, Any]) -> str:
    if "buckets" in image:
        tiers = " and ".join(str(tier) for tier in image["buckets"]["tiers"])
        return f"buckets of {tiers} pixels"
    if image.get("variable_size"):
        return f"own aspect, longest side {image['max_size']} pixels"
    return f"squares of {image['image_size']} pixels, cropped"
