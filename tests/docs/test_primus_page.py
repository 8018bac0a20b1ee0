"""docs/coming-from-primus.md has every flag and every YAML key of Primus's guide (June 2026)."""

import re
from pathlib import Path

import yaml

from diffprep_assets.primus_command import PRIMUS_FLAGS, PRIMUS_RAW_FLAGS
from diffprep_assets.recipe.execution import RECIPE_KEYS
from diffprep_assets.recipe.schema import Recipe

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from-primus.md").read_text("utf-8")

FLAGS = [
    *("--config", "--hf-token-file", "--source-type", "--input-dir", "--input-path"),
    *("--hf-dataset", "--output-dir", "--shard-size", "--max-samples", "--train-split"),
    *("--no-finalize", "--model-path", "--precision", "--t5-max-length", "--batch-size"),
    *("--image-size", "--center-crop", "--variable-size", "--max-size"),
]
RAW_FLAGS = ["--source-type", "--hf-dataset", "--output-dir", "--hf-token-file", "--image-quality"]
# Of its launchers, of its validation, and of its other pipeline.
OTHER_FLAGS = ["--nproc-per-node", "--nproc_per_node", "--encoding", "--image-quality"]
KEYS = {
    "source": ["type", "hf_dataset", "hf_split", "hf_data_files", "input_dir", "input_path"],
    "output": ["output_dir", "shard_size", "max_samples", "compress"],
    "model": ["model_path", "precision", "batch_size", "vae_path", "t5_path", "clip_path"],
    "image": ["image_size", "center_crop"],
}
OTHER_WORDS = [
    *("diffusion-raw", "HF_TOKEN", "HF_HOME", "PRIMUS_AUTO_INSTALL", "huggingface-cli"),
    *("validate_energon_dataset", "preprocessing.validate", "latents.pth", "caption.txt"),
    *(".nv-meta", "dataset.yaml", "split.yaml", ".info.json", "000000.tar.idx"),
]


def first_cells() -> str:
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    return "\n".join(re.split(r" \| ", line)[0] for line in lines)


def test_every_flag_has_its_row():
    assert [flag for flag in (*FLAGS, *OTHER_FLAGS) if f"`{flag}`" not in first_cells()] == []


def test_every_flag_of_the_pipeline_is_taken_by_our_command():
    ours = {f"--{key.replace('_', '-')}" for keys in PRIMUS_FLAGS.values() for key in keys}
    ours |= {"--config", "--no-finalize"}
    assert [flag for flag in FLAGS if flag not in ours] == []


def test_every_flag_of_the_raw_pipeline_is_taken_by_our_command():
    ours = {f"--{key.replace('_', '-')}" for keys in PRIMUS_RAW_FLAGS.values() for key in keys}
    assert [flag for flag in RAW_FLAGS if flag not in ours] == []


def test_every_yaml_key_has_its_row_and_is_a_key_here():
    cells = first_cells()
    for section, keys in KEYS.items():
        rows = "".join(line for line in cells.splitlines() if f"`{section}." in line)
        model = Recipe.model_fields[section].annotation
        known = {*getattr(model, "model_fields", {}), *(RECIPE_KEYS if section == "model" else ())}
        for key in keys:
            assert f"`{section}.{key}`" in rows or f", `{key}`" in rows, (section, key)
            assert key in known, (section, key)


def test_the_other_words_of_the_guide_are_on_the_page():
    assert [word for word in OTHER_WORDS if word not in PAGE] == []


def test_the_config_file_shown_has_every_key_of_the_guide_that_one_source_may_hold():
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    shown = yaml.safe_load(text)
    for section, keys in KEYS.items():
        missing = set(keys) - set(shown[section])
        assert missing <= {"input_dir", "input_path"}
