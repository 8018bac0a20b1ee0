from typing import Any

import pytest

from diffprep_assets.energon_prepare.card_readers import load_it, readers


def content(
    *, encoding: str = "preencoded", layout: str = "one", buckets: int = 2
) -> dict[str, Any]:
    names = [f"64/64x{32 * (place + 1)}/000000.tar" for place in range(buckets)]
    shards = [{"name": name} for name in names or ["000000.tar"]]
    return {"dataset": "demo", "encoding": encoding, "layout": layout, "shards": shards}


def stock_primus(**given: Any) -> str:
    (line,) = (line for line in readers(content(**given)).splitlines() if "as it comes" in line)
    return line


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"layout": "one"}, "not as it is"),
        ({"layout": "one"}, "`output.layout: per_bucket`"),
        ({"layout": "per_bucket"}, "one bucket's folder at a time"),
        ({"buckets": 1}, "all of it: it has one size"),
        ({"buckets": 0, "layout": "per_bucket"}, "all of it"),
        ({"encoding": "raw"}, "looks for a member `images`"),
    ],
)
def test_the_card_says_what_stock_primus_can_do_with_these_buckets(
    given: dict[str, Any], words: str
) -> None:
    assert words in stock_primus(**given)


def test_it_names_our_encoder_the_mixin_and_who_ignores_skips() -> None:
    text = readers(content())
    assert "PreencodedTaskEncoder` | all of it" in text
    assert "primus.GroupedByShape` before its encoder | all of it" in text
    (tars,) = (line for line in text.splitlines() if "webdataset" in line)
    assert "ignored" in tars
    assert "Skips take effect when a data loader starts anew" in text
    assert "still include skipped samples" in text


def test_buckets_that_are_datasets_load_through_the_metadataset_or_one_by_one() -> None:
    text = load_it(content(layout="per_bucket", encoding="raw"))
    assert '"path/to/demo/metadataset.yaml"' in text
    assert "task_encoder=RawTaskEncoder()" in text
    assert "`path/to/demo/64/64x32`" in text
    assert '"path/to/demo",' in load_it(content())
    assert '"path/to/demo",' in load_it(content(layout="per_bucket", buckets=0))
