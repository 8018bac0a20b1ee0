from pathlib import Path

import pytest

from diffprep_assets.recipe.load import load_recipe
from diffprep_resources.errors import RecipeError

MINIMAL = """\
source: {type: directory, input_dir: pictures}
output: {output_dir: out}
"""


def test_a_minimal_recipe_gets_every_default(load, tmp_path: Path):
    loaded = load(MINIMAL)

    assert loaded.name == "demo"
    assert loaded.resolved["output"] == {
        "output_dir": "out",
        "formats": ["energon"],
        "layout": "one",
        "image_format": "jpg",
        "image_quality": None,
        "resplit": False,
        "shard_size": 1000,
        "max_samples": None,
        "shuffle_seed": None,
        "train_split": 1.0,
        "splits": None,
        "split_seed": 0,
        "license": None,
        "finalize": True,
        "intermediates": "prune",
        "max_reject_rate": 0.05,
        "compress": False,
    }
    assert loaded.recipe.model.model_path == "black-forest-labs/FLUX.1-dev"
    assert loaded.recipe.model.t5_max_length == 512
    assert loaded.recipe.image.image_size == 1024
    assert loaded.recipe.image.mode == "image_size"
    assert loaded.recipe.data_format.image_fields[:2] == ("image", "jpg")
    assert loaded.execution.batch_size == 8
    assert loaded.execution.device is None
    assert loaded.output_dir == tmp_path / "out"
    assert loaded.input_dir == str(tmp_path / "pictures")
    assert loaded.notes == ()


PRIMUS_FILE = """\
source:
  type: huggingface          # huggingface | directory | webdataset
  hf_dataset: diffusers/pokemon-gpt4-captions
  hf_split: train
  hf_data_files: null        # optional: specific files within dataset

output:
  output_dir: ${PRIMUS_DATA_ROOT:/workspace/Primus/data}/encoded_pokemon
  shard_size: 1000           # samples per tar shard
  max_samples: null          # null = process all
  compress: false

model:
  model_path: black-forest-labs/FLUX.1-dev   # HF repo or local path
  precision: bf16            # bf16 | fp16 | fp32
  device: cuda
  batch_size: 8
  # Optional per-encoder overrides:
  vae_path: null
  t5_path: null
  clip_path: null

image:
  image_size: 1024
  center_crop: false
  variable_size: false
  max_size: 1024

auth:
  hf_token_file: ""  # Public dataset, no token needed
"""


def test_a_primus_file_loads_unchanged(load, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("PRIMUS_DATA_ROOT", raising=False)

    loaded = load(PRIMUS_FILE)

    assert loaded.output_dir == Path("/workspace/Primus/data/encoded_pokemon")
    assert loaded.recipe.output.max_samples is None
    assert loaded.recipe.model.vae_path is None
    assert loaded.recipe.auth.hf_token_file is None
    assert loaded.execution.device == "cuda"
    assert loaded.hf_dataset == "diffusers/pokemon-gpt4-captions"
    assert loaded.notes == ()


@pytest.mark.parametrize("section", ["data_format", "model", "image", "captions", "auth"])
def test_a_section_left_empty_has_its_defaults(load, section: str):
    assert load(f"{MINIMAL}{section}:\n").recipe_hash == load(MINIMAL).recipe_hash


def test_null_means_the_default_for_every_key(load):
    plain = load(MINIMAL)
    text = "".join(
        f"{name}:\n" + "".join(f"  {key}: null\n" for key in keys)
        for name, keys in plain.resolved.items()
        if isinstance(keys, dict) and name not in ("source", "output")
    )
    assert load(MINIMAL + text).resolved == plain.resolved


def test_execution_settings_change_no_hash(load):
    plain = load(MINIMAL)
    changed = load(f"{MINIMAL}model: {{device: 'cuda:1', batch_size: 32}}\n")

    assert changed.recipe_hash == plain.recipe_hash
    assert changed.execution.device == "cuda:1"
    assert changed.execution.batch_size == 32


def test_every_other_change_changes_the_hash(load):
    texts = [MINIMAL, f"{MINIMAL}image: {{image_size: 512}}\n", f"{MINIMAL}model: {{seed: 1}}\n"]
    hashes = {load(text).recipe_hash for text in texts}
    assert len(hashes) == 3
    assert all(len(digest) == 32 for digest in hashes)


def test_the_project_folder_is_not_in_the_hash(tmp_path: Path):
    path = tmp_path / "demo.yaml"
    path.write_text(MINIMAL)
    here = load_recipe(path, base=tmp_path / "a")
    there = load_recipe(path, base=tmp_path / "b")
    assert here.recipe_hash == there.recipe_hash
    assert here.output_dir != there.output_dir


def test_spelling_and_comments_do_not_change_the_hash(load):
    text = """\
        # the same, said otherwise
        output:
          output_dir: "out"
          train_split: 1
        image: {background: "#ffffff"}
        source:
          input_dir: pictures
          type: directory
    """
    assert load(text).recipe_hash == load(MINIMAL).recipe_hash


def test_all_problems_are_named_with_their_lines(refuse):
    message = refuse(
        """\
        source:
          type: directry
          input_dir: pictures
        outptu: {}
        output:
          output_dir: out
          train_split: 0.5
          splits: {train: 0.5, val: 0.4}
        model:
          precison: bf16
        image:
          image_size: 0
          center_crop: "False"
        """
    )
    starts = [line.split(":")[0] for line in message.splitlines()]
    assert starts == [
        "line 2",
        "line 4",
        "lines 7 and 8",
        "line 8",
        "line 10",
        "line 12",
        "line 13",
    ]
    assert 'got "directry"; did you mean directory?' in message
    assert "outptu is not a known key; did you mean output?" in message
    assert "did you mean model.precision? Known here: model_path, vae_path" in message
    assert "image.image_size must be a multiple of 16" in message
    assert 'image.center_crop must be true or false, got "False" as text' in message


def test_a_missing_section_is_named(refuse):
    assert refuse("source: {type: directory, input_dir: x}\n").startswith(
        "line 1: output is required"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "line 1: source is required"),
        ("# only a comment\n", "line 1: source is required"),
        ("- a\n- b\n", "line 1: a recipe is a mapping of sections"),
        ("just text\n", "line 1: a recipe is a mapping of sections"),
        ("source:\n  type: [\n", "line 3: this is not YAML"),
        ("source:\n\ttype: x\n", "line 2: this is not YAML"),
        ("a: 1\n---\nb: 2\n", "line 2: this is not YAML: expected a single document"),
        ("a: \x07\n", "line 1: this is not YAML"),
        ("a: " + "[" * 5000, "this is not YAML"),
    ],
)
def test_a_text_that_is_no_recipe_is_refused_with_a_line(refuse, text: str, expected: str):
    assert expected in refuse(text)


def test_a_file_that_is_not_utf8_is_refused_with_the_line(tmp_path: Path):
    path = tmp_path / "demo.yaml"
    path.write_bytes(b"source:\n  input_dir: caf\xe9\n")
    with pytest.raises(RecipeError, match="line 2: a recipe is UTF-8"):
        load_recipe(path, base=tmp_path)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path):
    path = tmp_path / "demo.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + MINIMAL.encode())
    assert load_recipe(path, base=tmp_path).recipe.output.output_dir == "out"


def test_a_missing_file_is_refused_by_name(tmp_path: Path):
    with pytest.raises(RecipeError, match=r"gone\.yaml: cannot read this recipe: No such file"):
        load_recipe(tmp_path / "gone.yaml", base=tmp_path)


@pytest.mark.parametrize("name", ["my recipe.yaml", ".hidden.yaml", "-x.yaml", "a+b.yml"])
def test_a_file_name_that_cannot_name_a_dataset_is_refused(tmp_path: Path, name: str):
    path = tmp_path / name
    path.write_text(MINIMAL)
    with pytest.raises(RecipeError, match="file name names its dataset"):
        load_recipe(path, base=tmp_path)


@pytest.mark.parametrize(
    ("source", "output", "relation"),
    [
        ("data/pictures", "data/pictures/out", "lies inside"),
        ("data/pictures", "data", "contains"),
        ("data/pictures", "./data/x/../pictures", "is the same folder as"),
        ("link/pictures", "data/pictures/out", "lies inside"),
    ],
)
def test_an_output_among_the_source_is_refused_naming_both(
    refuse, tmp_path: Path, source: str, output: str, relation: str
):
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    message = refuse(
        f"source:\n  type: directory\n  input_dir: {source}\noutput:\n  output_dir: {output}\n"
    )
    assert message.startswith("lines 3 and 5: output.output_dir (")
    assert f") {relation} source.input_dir ({tmp_path / source})" in message


def test_an_output_beside_the_source_is_fine(load):
    text = "source: {type: directory, input_dir: data/in}\noutput: {output_dir: data/in_encoded}\n"
    assert load(text).output_dir.name == "in_encoded"


def test_an_output_among_the_tars_or_the_hub_folder_is_refused(refuse, tmp_path: Path):
    for pattern in ("tars/*.tar", "tars/*/*.tar", "t*/*.tar", "tars/**/*.tar", "tars/out/x/*.tar"):
        tars = f"source: {{type: webdataset, input_path: {pattern}}}\n"
        message = refuse(tars + "output: {output_dir: tars/out}\n")
        assert f"lies among the files of source.input_path ({tmp_path / pattern})" in message

    (tmp_path / "hub").mkdir()
    hub = "source: {type: huggingface, hf_dataset: hub}\n"
    assert "source.hf_dataset" in refuse(hub + "output: {output_dir: hub/out}\n")


def test_an_output_beside_a_folder_of_tars_or_one_tar_is_fine(load, refuse, tmp_path: Path):
    (tmp_path / "tars").mkdir()
    for place in ("tars", "set.tar"):
        source = f"source: {{type: webdataset, input_path: {place}}}\n"
        assert load(source + "output: {output_dir: data/set}\n").output_dir.name == "set"
        refuse(source + "output: {output_dir: .}\n")
    message = refuse(
        "source: {type: webdataset, input_path: tars}\noutput: {output_dir: tars/out}\n"
    )
    assert f"lies inside source.input_path ({tmp_path / 'tars'})" in message


def test_the_home_of_nobody_is_a_path_like_any_other(load, tmp_path: Path):
    text = "source: {type: directory, input_dir: in}\noutput: {output_dir: ~no_such_user/x}\n"
    assert load(text).output_dir == tmp_path / "~no_such_user" / "x"


@pytest.mark.parametrize("pattern", ["data/raw-*/*.tar", "data/raw/*.tar", "data/*/a/*.tar"])
def test_an_output_where_no_tar_of_the_glob_can_be_is_fine(load, pattern: str):
    text = (
        f"source: {{type: webdataset, input_path: {pattern}}}\noutput: {{output_dir: data/set/b}}"
    )
    assert load(text).output_dir.name == "b"


def test_a_remote_source_is_left_as_it_is(load):
    text = "source: {type: directory, input_dir: 's3://bucket/a'}\noutput: {output_dir: out}\n"
    loaded = load(text)
    assert loaded.input_dir == "s3://bucket/a"
    assert loaded.source_folder is None


def test_model_paths_are_folders_where_they_exist_and_names_elsewhere(load, tmp_path: Path):
    (tmp_path / "models" / "vae").mkdir(parents=True)
    loaded = load(f"{MINIMAL}model: {{vae_path: models/vae, t5_path: google/t5, clip_path: ./c}}\n")

    assert loaded.model_reference("model_path") == "black-forest-labs/FLUX.1-dev"
    assert loaded.model_reference("vae_path") == str(tmp_path / "models" / "vae")
    assert loaded.model_reference("t5_path") == "google/t5"
    assert loaded.model_reference("clip_path") == str(tmp_path / "c")


def test_the_token_file_is_a_path_from_the_project_or_home(
    load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", "/home/somebody")
    assert load(f"{MINIMAL}auth: {{hf_token_file: t}}\n").hf_token_file == tmp_path / "t"
    home = load(f"{MINIMAL}auth: {{hf_token_file: ~/t}}\n").hf_token_file
    assert home == Path("/home/somebody/t")


def test_a_token_written_into_a_recipe_is_refused_and_never_shown(refuse):
    token = "hf_" + "abcdEFGH1234"
    message = refuse(f"{MINIMAL}auth: {{hf_token_file: {token}, token: {token}}}\n")
    assert "never the token itself" in message
    assert "auth.token is not a known key" in message
    assert token not in message


def test_overrides_act_as_if_the_file_said_so(load):
    overrides = {
        "image.image_size": "512",
        "output.max_samples": 10,
        "model.batch_size": "2",
        "output.splits": "{train: 0.5, val: 0.5}",
        "source.input_dir": "elsewhere",
        "image.background": "#000000",
        "schedule": "*/5 * * * *",
    }
    loaded = load(MINIMAL, overrides=overrides)
    written = load(
        """\
        source: {type: directory, input_dir: elsewhere}
        output: {output_dir: out, max_samples: 10, splits: {train: 0.5, val: 0.5}}
        image: {image_size: 512, background: "#000000"}
        schedule: "*/5 * * * *"
        """
    )
    assert loaded.resolved == written.resolved
    assert loaded.recipe_hash == written.recipe_hash
    assert loaded.execution.batch_size == 2


def test_an_override_equal_to_the_default_beats_the_file(load):
    text = f"{MINIMAL}image: {{image_size: 256}}\nmodel: {{batch_size: 2}}\n"
    loaded = load(text, overrides={"image.image_size": "1024", "model.batch_size": 8})
    assert loaded.recipe.image.image_size == 1024
    assert loaded.execution.batch_size == 8


def test_an_override_of_null_takes_a_key_back(load):
    text = "source: {type: huggingface, hf_dataset: a/b}\noutput: {output_dir: out}\n"
    overrides = {
        "source.type": "directory",
        "source.hf_dataset": None,
        "source.input_dir": "pictures",
    }
    assert load(text, overrides=overrides).recipe.source.type == "directory"


def test_a_wrong_override_is_refused_as_of_the_command_line(refuse):
    overrides = {"image.image_size": "500", "image.imagesize": "5", "output.splits": "{train: "}
    message = refuse(MINIMAL, overrides=overrides)
    lines = message.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("command line: ") for line in lines)
    assert "got 500; the nearest is 496" in message
    assert "image.imagesize is not a known key; did you mean image.image_size?" in message
    assert "output.splits this is not YAML" in message


def test_an_override_mends_what_the_file_got_wrong(load):
    text = f"{MINIMAL}image: {{image_size: ${{NOT_SET_ANYWHERE}}}}\n"
    assert load(text, overrides={"image.image_size": "64"}).recipe.image.image_size == 64


def test_keys_without_effect_are_noted_not_refused(load, tmp_path: Path):
    assert load(f"{MINIMAL}image: {{image_size: 512, variable_size: true}}\n").notes == (
        "image.image_size has no effect: image.max_size decides with image.variable_size",
    )
    (tmp_path / "hub").mkdir()
    hub = "source: {type: huggingface, hf_dataset: hub, hf_revision: v1}\noutput: {output_dir: o}\n"
    assert load(hub).notes == (
        "source.hf_revision has no effect: source.hf_dataset is a local folder",
    )
