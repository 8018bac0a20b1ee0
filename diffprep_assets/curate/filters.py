"""Rules on a sample's own size and caption: which of some rows they reject, and why."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from diffprep_assets.curate.banned import Banned
from diffprep_assets.recipe.curation import Filters


@dataclass(frozen=True, slots=True)
class Rows:
    """Kept samples of a part: sizes in pixels of the upright picture, int64, and captions."""

    widths: np.ndarray
    heights: np.ndarray
    captions: list[str]

    def take(self, places: np.ndarray) -> "Rows":
        captions = [self.captions[place] for place in places.tolist()]
        return Rows(self.widths[places], self.heights[places], captions)


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a sample is left out, and by which rule."""

    code: str
    message: str
    rule: str


class RuleFilters:
    """The filters of a recipe but `where`, in the order in which they are asked."""

    def __init__(self, filters: Filters) -> None:
        self._filters = filters
        self._banned = Banned(filters.banned) if filters.banned else None

    def rejections(self, rows: Rows) -> dict[int, Rejection]:
        """The first rule that rejects a row, by the row's place. Raises SettingError for a banned
        pattern that takes too long."""
        found: dict[int, Rejection] = {}
        left = np.arange(len(rows.captions))
        for rule in (self._min_side, self._max_aspect, self._caption_length, self._banned_words):
            some = rows.take(left)
            for place, rejection in rule(some):
                found[int(left[place])] = rejection
            left = np.array([place for place in left.tolist() if place not in found], np.int64)
        return found

    def _min_side(self, rows: Rows) -> Iterator[tuple[int, Rejection]]:
        least = self._filters.min_side
        if least is None:
            return
        shorter = np.minimum(rows.widths, rows.heights)
        for place in np.flatnonzero(shorter < least).tolist():
            message = f"shorter side {shorter[place]} pixels, at least {least} are asked for"
            yield place, Rejection("filter_min_side", message, "filters.min_side")

    def _max_aspect(self, rows: Rows) -> Iterator[tuple[int, Rejection]]:
        most = self._filters.max_aspect
        if most is None:
            return
        longer = np.maximum(rows.widths, rows.heights)
        shorter = np.minimum(rows.widths, rows.heights)
        for place in _over(longer, shorter, most):
            size = f"{rows.widths[place]}x{rows.heights[place]}"
            ratio = f"{longer[place] / shorter[place]:.3g}"
            asked = f"at most {float(most):.3g} is asked for"
            message = f"{size}: longer over shorter side is {ratio}, {asked}"
            yield place, Rejection("filter_max_aspect", message, "filters.max_aspect")

    def _caption_length(self, rows: Rows) -> Iterator[tuple[int, Rejection]]:
        if self._filters.caption_length is None:
            return
        least, most = self._filters.caption_length
        for place, caption in enumerate(rows.captions):
            length = len(caption)
            asked = None
            if least is not None and length < least:
                asked = f"at least {least}"
            elif most is not None and length > most:
                asked = f"at most {most}"
            if asked is not None:
                message = f"caption of {length} characters, {asked} are asked for"
                yield place, Rejection("filter_caption_length", message, "filters.caption_length")

    def _banned_words(self, rows: Rows) -> Iterator[tuple[int, Rejection]]:
        if self._banned is None:
            return
        for place, entry in sorted(self._banned.found(rows.captions).items()):
            message = f"the caption holds `{entry}`, which is banned"
            yield place, Rejection("filter_banned", message, "filters.banned")


def _over(longer: np.ndarray, shorter: np.ndarray, most: Fraction) -> list[int]:
    """Places where longer / shorter is more than `most`, exactly; sides and a fraction of up to
    twelve digits may pass 64 bits, so near ties are counted in Python's integers."""
    ratios = longer / shorter
    near = float(most) * 1e-9
    places = np.flatnonzero(ratios > float(most) - near)
    return [
        place
        for place in places.tolist()
        if int(longer[place]) * most.denominator > int(shorter[place]) * most.numerator
    ]
