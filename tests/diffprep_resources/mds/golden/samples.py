"""The samples of the golden shard. Run by a Python that has mosaicml-streaming, it makes the shard
and its index with the library's own writer:

    PYTHONPATH=. python tests/diffprep_resources/mds/golden/samples.py FOLDER
"""

import sys

import numpy as np

HASHES = ["xxh3_128"]
COLUMNS = {
    "image": "jpeg",
    "drawing": "png",
    "width": "int",
    "id": "str",
    "caption": "str",
    "raw": "bytes",
    "mask": "ndarray",
    "latent": "bf16",
    "half": "ndarray:float16",
    "fixed": "ndarray:uint8:1,8",
    "wide": "ndarray:int32:2",
    "long": "ndarray",
}


def sample(number: int) -> dict[str, object]:
    """One sample; every value differs from the next one's, some in size."""
    rng = np.random.default_rng(number)
    return {
        "image": b"\xff\xd8 a picture's bytes, as they are " + bytes([number]) * number,
        "drawing": b"\x89PNG" + bytes([number]),
        "width": (-1) ** number * (number + 2**40),
        "id": f"{number:010d}",
        "caption": "" if number == 1 else f"na\u00efve \u732b {'x' * number}",
        "raw": bytes(range(number)),
        "mask": rng.integers(0, 2, (6,)).astype(np.uint8),
        "latent": rng.integers(0, 2**16, (2, 3, 4)).astype(np.uint16),
        "half": rng.standard_normal((1 + number, 300)).astype(np.float16),
        "fixed": rng.integers(0, 256, (1, 8)).astype(np.uint8),
        "wide": np.array([number, -number], np.int32),
        "long": rng.standard_normal((1, 2, 1, 2)),
    }


SAMPLES = [sample(number) for number in range(5)]


def main() -> None:
    from streaming import MDSWriter  # pyright: ignore[reportMissingImports]

    from diffprep_resources.mds.encodings import encode
    from diffprep_resources.trainers.streaming import register_bf16

    register_bf16()
    with MDSWriter(out=sys.argv[1], columns=COLUMNS, hashes=HASHES, size_limit=None) as writer:
        for values in SAMPLES:
            # The library passes bytes on as they are: the only way to hand it a picture's own.
            writer.write({**values, "latent": encode("bf16", values["latent"])})


if __name__ == "__main__":
    main()
