import ast
import inspect
import itertools
import re
from collections.abc import Callable
from dataclasses import replace

import pytest
import yaml
from huggingface_hub import DatasetCard, DatasetCardData

from diffprep_assets.energon_prepare.card import MARKER, card
from diffprep_assets.energon_prepare.provenance import DatasetDescription, provenance
from diffprep_assets.energon_prepare.publish import FinishedShard, publish
from diffprep_assets.layout import Layout

MakeShard = Callable[..., FinishedShard]


@pytest.mark.filterwarnings("ignore")
def test_the_three_statements_of_the_card_load_the_dataset(
    layout: Layout, make_shard: MakeShard, description: DatasetDescription
) -> None:
    shards = [make_shard(0, range(6)), make_shard(0, range(6, 12), size=(32, 64))]
    publish(layout, shards=shards, description=description, nested=True)
    text = layout.card.read_text()
    code = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]
    statements = [line for line in ast.parse(code).body if not isinstance(line, ast.ImportFrom)]
    assert len(statements) == 3
    scope: dict = {}
    exec(code.replace("path/to/demo", str(layout.output_dir)), scope)
    batches = list(itertools.islice(scope["loader"], 4))
    assert {tuple(batch["latents"].shape[1:]) for batch in batches} == {(16, 4, 8), (16, 8, 4)}


def test_the_card_tells_counts_buckets_and_why_samples_are_missing(
    layout: Layout, make_shard: MakeShard, description: DatasetDescription
) -> None:
    described = replace(description, listed=9, rejects={"too_small": 1, "no_caption": 5})
    published = publish(
        layout, shards=[make_shard(0, [1, 2, 3])], description=described, nested=False
    )
    text = card(provenance(described, shards=published.shards, rewrites={})).decode()
    assert text == layout.card.read_text()
    assert MARKER in text
    assert "| train | 3 |" in text
    assert "| 64 | 64x32 | 1 | 3 | 3 | 0 | 0 |" in text
    assert "6 of the source's 9 samples" in text
    assert text.index("| no_caption | 5 |") < text.index("| too_small | 1 |")
    matter = yaml.safe_load(text.split("---\n")[1])
    assert matter["size_categories"] == ["n<1K"]
    assert matter["pretty_name"] == "demo"


def test_the_card_of_clips_speaks_of_clips_and_of_what_was_done_to_their_latents(
    layout: Layout, make_shard: MakeShard, description: DatasetDescription
) -> None:
    shard = make_shard(0, [1, 2, 3])
    described = replace(
        description,
        encoding="preencoded_video",
        recipe={"source": {"type": "directory"}, "video": {"workload": "i2v"}},
        latents_scale=None,
        latents_statistics=((0.5, -1.0), (2.0, 3.0)),
    )
    clips = replace(shard, record=replace(shard.record, frames=17))
    published = publish(layout, shards=[clips], description=described, nested=True)
    content = provenance(described, shards=published.shards, rewrites={})
    assert content["latents"] == {"mean": [0.5, -1.0], "std": [2.0, 3.0]}
    assert content["shards"][0]["num_frames"] == 17
    assert content["counts"]["buckets"][0]["num_frames"] == 17
    text = layout.card.read_text()
    assert "3 captioned clips, encoded once" in text
    assert "| 64 | 64x32x17 | 1 | 3 | 3 | 0 | 0 |" in text
    assert "task_encoder=PreencodedVideoTaskEncoder()" in text
    assert "normalised, which is what a model sees of it" in text
    assert "A local folder of clips and captions." in text
    assert yaml.safe_load(text.split("---\n")[1])["task_categories"] == ["image-to-video"]


def test_the_front_matter_is_what_the_hub_reads(
    layout: Layout, make_shard: MakeShard, description: DatasetDescription
) -> None:
    recipe = {
        "output": {"license": "cc-by-4.0"},
        "source": {"type": "huggingface", "hf_dataset": "owner/pictures", "hf_split": "train"},
    }
    described = replace(description, listed=3, recipe=recipe, source_revision="c" * 40)
    publish(layout, shards=[make_shard(0, [1, 2, 3])], description=described, nested=False)
    data = DatasetCard.load(layout.card).data.to_dict()
    assert data == {
        "pretty_name": "demo",
        "license": "cc-by-4.0",
        "task_categories": ["text-to-image"],
        "size_categories": ["n<1K"],
        "tags": ["diffprep", "megatron-energon", "webdataset", "precomputed-latents"],
        "source_datasets": ["owner/pictures"],
    }
    known = inspect.signature(DatasetCardData.__init__).parameters
    assert data.keys() - {"tags"} <= known.keys()
    text = layout.card.read_text()
    assert "(https://huggingface.co/datasets/owner/pictures)" in text
    assert "`" + "c" * 40 + "`" in text


def test_a_local_source_and_no_licence_put_no_path_and_no_key_into_the_card(
    layout: Layout, make_shard: MakeShard, description: DatasetDescription
) -> None:
    recipe = {"source": {"type": "directory", "input_dir": "/secret/place"}, "output": {}}
    described = replace(description, listed=1, recipe=recipe)
    publish(layout, shards=[make_shard(0, [1])], description=described, nested=False)
    text = layout.card.read_text()
    assert "A local folder of pictures and captions." in text
    assert "/secret" not in text
    assert "license" not in DatasetCard.load(layout.card).data.to_dict()
    assert "samples.jpg" not in text
