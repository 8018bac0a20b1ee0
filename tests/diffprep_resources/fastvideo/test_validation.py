import json
from pathlib import Path

import datasets

from diffprep_resources.fastvideo.validation import ValidationPrompt, write_validation_json


def test_the_validation_file_is_what_trainers_take(tmp_path: Path) -> None:
    path = tmp_path / "validation.json"
    prompts = [
        ValidationPrompt("a caf\u00e9", 832, 480, 77),
        ValidationPrompt("b", 832, 480, 77, image_path="0000000001.png"),
    ]
    write_validation_json(path, prompts)
    first, second = json.loads(path.read_text("utf-8"))["data"]
    assert first == {
        "caption": "a caf\u00e9",
        "image_path": None,
        "video_path": None,
        "num_inference_steps": 50,
        "height": 480,
        "width": 832,
        "num_frames": 77,
    }
    assert second["image_path"] == "0000000001.png"
    loaded = datasets.load_dataset(
        "json", data_files=str(path), split="train", field="data", cache_dir=str(tmp_path / "c")
    )
    assert loaded["caption"][:] == ["a caf\u00e9", "b"]
