"""The written tar through the three readers that people open it with."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import datasets
import torch
from webdataset.compat import WebDataset

if TYPE_CHECKING:
    from tests.conftest import ProjectFolder


def test_webdataset_energon_and_datasets_read_the_same_keys_and_members(
    project: "ProjectFolder", read_samples: Callable[..., dict[str, Any]], tmp_path: Path
):
    project.write_pictures(range(6))
    project.write_recipe(output={"shard_size": 10}, model={"precision": "bf16"})
    assert project.run().ok
    out = project.layout().output_dir
    by_energon = {sample["key"]: sample for sample in read_samples(out).values()}

    tar = str(out / "000000.tar")
    by_webdataset = {
        sample["__key__"]: sample
        for sample in WebDataset(tar, shardshuffle=False, empty_check=False)
    }
    streamed = datasets.load_dataset(
        "webdataset", data_files=tar, split="train", streaming=True, cache_dir=str(tmp_path)
    )
    by_datasets = {row["__key__"]: row for row in streamed}

    assert list(by_webdataset) == [f"{number:010d}" for number in range(6)]
    assert by_energon.keys() == by_webdataset.keys() == by_datasets.keys()
    for key, sample in by_energon.items():
        members = by_webdataset[key]
        assert members["caption.txt"].decode() == sample["caption"]
        assert json.loads(members["json"]) == sample["metadata"]
        assert by_datasets[key]["json"] == sample["metadata"]
        assert by_datasets[key]["caption.txt"] == sample["caption"]
        for name, tensor in sample["tensors"].items():
            data = members[f"{name}.pth"]
            loaded = torch.load(io.BytesIO(data), weights_only=True)
            assert loaded.dtype == torch.bfloat16
            assert loaded.equal(tensor)
            # A saved view would carry its whole batch along.
            assert len(data) < tensor.nbytes + 2000
        names = {"latents", "prompt_embeds", "pooled_prompt_embeds"}
        assert {name for name in members if not name.startswith("__")} == {
            *(f"{name}.pth" for name in names),
            *("caption.txt", "json"),
        }
