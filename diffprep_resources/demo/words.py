"""What the demo's pictures show, in words and numbers. The tiny tokenizers know these words too."""

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (214, 52, 56),
    "orange": (238, 134, 40),
    "yellow": (244, 200, 62),
    "green": (62, 156, 88),
    "teal": (34, 142, 150),
    "blue": (52, 100, 196),
    "purple": (126, 78, 176),
    "pink": (232, 118, 160),
    "brown": (136, 90, 60),
    "black": (44, 44, 52),
}

BACKGROUNDS: dict[str, tuple[tuple[int, int, int], tuple[int, int, int]]] = {
    "cream": ((252, 246, 230), (240, 226, 198)),
    "sky": ((224, 240, 252), (184, 214, 240)),
    "mint": ((228, 246, 236), (190, 226, 208)),
    "lavender": ((240, 234, 250), (212, 200, 236)),
    "grey": ((240, 240, 242), (206, 208, 214)),
    "peach": ((254, 236, 224), (246, 206, 186)),
}

SHAPES: tuple[str, ...] = (
    "circle",
    "ring",
    "square",
    "triangle",
    "diamond",
    "hexagon",
    "star",
    "cross",
)

# Radius as a share of the largest circle that fits one cell of the 3 by 3 grid of places.
SIZES: dict[str, float] = {"small": 0.5, "medium": 0.72, "large": 0.94}

# Column and row of the 3 by 3 grid.
PLACES: dict[str, tuple[int, int]] = {
    "in the upper left": (0, 0),
    "at the top": (1, 0),
    "in the upper right": (2, 0),
    "on the left": (0, 1),
    "in the middle": (1, 1),
    "on the right": (2, 1),
    "in the lower left": (0, 2),
    "at the bottom": (1, 2),
    "in the lower right": (2, 2),
}

NUMBERS: tuple[str, ...] = ("one shape", "two shapes", "three shapes", "four shapes")


def vocabulary() -> list[str]:
    """Every word of the demo's captions and a few others, sorted."""
    words = {"a", "and", "on", "background", "in", "black", "white", "drawing", "of", "the"}
    for texts in (COLOURS, BACKGROUNDS, SHAPES, SIZES, PLACES, NUMBERS):
        for text in texts:
            words.update(text.split())
    return sorted(words)
