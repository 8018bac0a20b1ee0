"""Recipes, settings and access to models: each line of the known cases."""

import json
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
import yaml
from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL
from typer.testing import CliRunner

from diffprep_assets.bucket.table import read_rows
from diffprep_assets.cli import app
from diffprep_assets.recipe.check import check_recipe
from diffprep_assets.recipe.load import LoadedRecipe, load_recipe
from diffprep_assets.recipe.resolved import recipe_hash, resolved_recipe
from diffprep_assets.validate.dataset import validate_dataset
from diffprep_resources.errors import RecipeError, SettingError, SourceAccessError
from diffprep_resources.hub import datasets, polite
from tests.cases.looking import looked_through, put
from tests.cases.picture_files import encoded, noise
from tests.conftest import draw, write_parquet

if TYPE_CHECKING:
    from tests.conftest import ProjectFolder
    from tests.hub_server import DatasetHub

REPO = "owner/pictures"
SOURCE = {"type": "huggingface", "hf_dataset": REPO}
WAYS = ("auth.hf_token_file", "--hf-token-file", "HF_TOKEN", "hf auth login")
GOOD = """\
source: {type: directory, input_dir: pictures}
output: {output_dir: out/set}
"""
# What is added to the good recipe, and what the refusal says.
REFUSED = {
    "an unknown key": ("image: {imagesize: 512}", "did you mean image.image_size?"),
    "a misspelt key": ("captions: {chose: all}", "did you mean captions.choose?"),
    "a key of another section": ("model: {image_size: 512}", "did you mean image.image_size?"),
    "an unknown section": ("images: {image_size: 512}", "did you mean image?"),
    "a key with hyphens": ("image: {image-size: 512}", "did you mean image.image_size?"),
    "a text for a truth value": ('image: {center_crop: "False"}', "must be true or false"),
    "a number for a truth value": ("image: {center_crop: 1}", "must be true or false"),
    "a size of 0": ("image: {image_size: 0}", "the nearest is 16"),
    "a size below 0": ("image: {image_size: -512}", "the nearest is 16"),
    "a size of no step": ("image: {image_size: 500}", "the nearest is 496"),
    "a number as text": ('image: {image_size: "512"}', "remove the quotes"),
    "a fraction of a pixel": ("image: {image_size: 512.5}", "must be a whole number"),
    "not a number": ("image: {image_size: .nan}", "must be a whole number"),
    "an infinite rate": ("schedule: .inf", "must be text"),
    "a share that is no number": ("data_format: {image_key: 7}", "put it in quotes"),
    "a wrong word": ("model: {precision: bfloat16}", "did you mean bf16?"),
    "a word in capitals": ("model: {precision: BF16}", "must be bf16, fp16 or fp32"),
    "a list for a section": ("image: [512]", "must be a section with the keys"),
    "a section twice": ("image: {image_size: 512}\nimage: {image_size: 256}", "a second time"),
    "a key twice": ("image: {image_size: 512, image_size: 256}", "a second time"),
    "a tab": ("image:\n\timage_size: 512", "not YAML"),
    "an object": ("image: !!python/object/apply:os.system [id]", "must not carry the tag"),
    "a name of Python": ("image: {background: !!python/name:os.system }", "must not carry the tag"),
    "a colour without quotes": ("image: {background: #000000\n  }", "needs quotes"),
    "an endless alias": ("image: &a {buckets: *a}", "alias"),
    "a bracket left open": ("image: {image_size: 512", "not YAML"),
    "a key that is a list": ("image: {[1]: 2}", "keys are words"),
    "a ${ that is open": ("image: {background: ${BACK}", "not YAML"),
    "a secret": ("auth: {hf_token_file: hf_abcdefghij}", "never the token itself"),
    "compress": ("output: {compress: true, output_dir: out}", "a compressed tar cannot be indexed"),
}
OUTPUT = "output: {output_dir: o, max_reject_rate: "
DIRECTORY = "source: {type: directory, input_dir: "
TAKEN = {
    "yes is true": ("image: {center_crop: yes}", "image.center_crop", True),
    "no is false": ("image: {center_crop: no}", "image.center_crop", False),
    "off is false": ("image: {center_crop: off}", "image.center_crop", False),
    "an anchor": ("image: {image_size: &side 512, max_size: *side}", "image.max_size", 512),
    "null is the default": ("image: {image_size: null}", "image.image_size", 1024),
    "an underscore": ("image: {max_pixels: 1_000_000}", "image.max_pixels", 1_000_000),
    "an exponent": (OUTPUT + "1e-2}", "output.max_reject_rate", 0.01),
    "a whole number for a share": (OUTPUT + "1}", "output.max_reject_rate", 1.0),
    "a quoted number is a name": (DIRECTORY + '"2024"}', "source.input_dir", "2024"),
    "a day is a name": (DIRECTORY + "2024-01-01}", "source.input_dir", "2024-01-01"),
}


def diffprep(project: "ProjectFolder", *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, [*arguments, "--project", str(project.folder)])
    return result.exit_code, result.output


def write(project: "ProjectFolder", added: str) -> Path:
    path = project.folder / "recipes" / "set.yaml"
    path.parent.mkdir(exist_ok=True)
    sections = {line.split(":")[0] for line in added.splitlines()}
    kept = [line for line in GOOD.splitlines() if line.split(":")[0] not in sections]
    path.write_text("\n".join([*kept, added, ""]))
    return path


@pytest.mark.parametrize("what", REFUSED)
def test_an_unknown_key_or_wrong_value_is_refused_before_any_work_with_file_and_line(
    project: "ProjectFolder", what: str
) -> None:
    added, said = REFUSED[what]
    path = write(project, added)
    for command in ("check", "run", "status"):
        code, shown = diffprep(project, command, "set")
        assert code == 2
        assert said in shown
        assert f"{path}, line " in shown
        assert "Traceback" not in shown
        assert "abcdefghij" not in shown
    assert not project.project.storage_root.exists()
    assert not (project.folder / "out").exists()


def test_every_problem_is_told_at_once_with_the_allowed_values(project: "ProjectFolder") -> None:
    added = 'image: {center_crop: "False", image_size: 0}\nmodel: {precision: half}\ncaption: {}'
    path = write(project, added)
    code, shown = diffprep(project, "check", "set")
    lines = [line for line in shown.splitlines() if f"{path}, line " in line]
    assert (code, len(lines)) == (2, 4)
    assert 'image.center_crop must be true or false, got "False" as text' in shown
    assert "image.image_size must be a multiple of 16 from 16 to 16384, got 0" in shown
    assert 'model.precision must be bf16, fp16 or fp32, got "half"' in shown
    assert "caption is not a known key; did you mean captions?" in shown


@pytest.mark.parametrize("what", TAKEN)
def test_yaml_means_what_people_mean(project: "ProjectFolder", what: str) -> None:
    added, place, expected = TAKEN[what]
    write(project, added)
    loaded = load(project)
    section, key = place.split(".")
    found = loaded.resolved[section][key]  # pyright: ignore[reportIndexIssue]
    assert (found, type(found)) == (expected, type(expected))


def load(project: "ProjectFolder", **changes: object) -> LoadedRecipe:
    path = project.folder / "recipes" / "set.yaml"
    return load_recipe(path, base=project.folder, overrides=changes)


def test_the_command_line_wins_also_where_it_equals_the_default(project: "ProjectFolder") -> None:
    write(project, "image: {image_size: 256, center_crop: true}")
    code, shown = diffprep(
        project,
        *("check", "set", "--set", "image.image_size=1024", "--set", "image.center_crop=false"),
    )
    image = yaml.safe_load(shown)["image"]
    assert (code, image["image_size"], image["center_crop"]) == (0, 1024, False)


def test_flags_of_the_guide_win_also_where_they_equal_the_default(
    project: "ProjectFolder",
) -> None:
    config = project.folder / "config.yaml"
    config.write_text(
        "source: {type: directory, input_dir: none}\n"
        "output: {output_dir: out/flags, shard_size: 7}\n"
        "image: {image_size: 256, center_crop: true}\n"
    )
    flags = ("--shard-size", "1000", "--image-size", "1024", "--no-center-crop")
    code, _ = diffprep(project, "diffusion-encoded", "--config", str(config), *flags)
    assert code != 0  # There is no such folder.
    written = load_recipe(project.folder / "recipes" / "flags.yaml", base=project.folder)
    assert written.recipe.output.shard_size == 1000
    assert (written.recipe.image.image_size, written.recipe.image.center_crop) == (1024, False)


@pytest.mark.parametrize(
    ("value", "expected"), [(None, "there"), ("here", "here"), ("", ""), ("a b", "a b")]
)
def test_a_variable_unset_set_and_set_to_empty_is_default_value_and_empty(
    project: "ProjectFolder",
    monkeypatch: pytest.MonkeyPatch,
    value: str | None,
    expected: str,
) -> None:
    if value is None:
        monkeypatch.delenv("PLACE", raising=False)
    else:
        monkeypatch.setenv("PLACE", value)
    write(project, 'output: {output_dir: "out/x${PLACE:there}"}')
    assert load(project).recipe.output.output_dir == f"out/x{expected}"
    write(project, "data_format: {image_key: ${PLACE:there}}")
    # An empty text is as if it had not been written, where null is the default.
    assert load(project).recipe.data_format.image_key == (expected or None)


def test_a_compressed_output_is_refused_since_it_cannot_be_indexed(
    project: "ProjectFolder",
) -> None:
    write(project, "output: {output_dir: out, compress: true}")
    code, shown = diffprep(project, "run", "set")
    assert code == 2
    assert "output.compress must be false, got true; a compressed tar cannot be indexed" in shown
    assert diffprep(project, "check", "set", "--set", "output.compress=false")[0] == 0


def test_sizes_and_bucket_keys_come_back_from_json_and_parquet_as_they_went(
    project: "ProjectFolder",
) -> None:
    write(
        project,
        "image: {buckets: {tiers: [256, 512], max_upscale: 4/3, min_aspect: 0.5}}\n"
        "output: {output_dir: o, shard_size: {256: 20, 512: 10}, splits: {train: 0.9, val: 1/10},"
        " max_reject_rate: 1}",
    )
    loaded = load(project)
    back = json.loads(json.dumps(loaded.resolved))
    checked = check_recipe(back, written={})
    assert not isinstance(checked, list)
    recipe, _ = checked
    assert recipe == loaded.recipe
    assert recipe.output.shard_size == {256: 20, 512: 10}
    assert recipe.image.buckets is not None
    assert recipe.image.buckets.max_upscale == Fraction(4, 3)
    assert recipe.output.shares.val == Fraction(1, 10)
    assert (recipe.output.max_reject_rate, type(recipe.output.max_reject_rate)) == (1.0, float)
    assert recipe_hash(resolved_recipe(recipe)) == loaded.recipe_hash
    put(project.pictures, {"a.txt": "1.0", "a.png": encoded(noise(400, 300), "PNG")})
    found = looked_through(project.folder, image={"image_size": None, "buckets": {"tiers": [256]}})
    (row,) = read_rows(found.dataset.layout.bucket("p00000"))
    assert (row.tier, row.width, row.height, row.caption) == (256, 288, 224, "1.0")
    assert {type(value) for value in (row.tier, row.width, row.height, row.crop_left)} == {int}
    assert type(row.caption) is str


def test_an_output_folder_inside_the_source_is_refused_before_any_work(
    project: "ProjectFolder",
) -> None:
    project.write_pictures(range(2))
    for output in ("pictures/out", "pictures", "."):
        project.write_recipe(output={"output_dir": output})
        with pytest.raises(RecipeError, match="output_dir") as caught:
            project.run()
        assert str(project.pictures) in str(caught.value)
    (project.folder / "link").symlink_to(project.pictures)
    project.write_recipe(output={"output_dir": "link/out"})
    with pytest.raises(RecipeError, match="lies inside source"):
        project.run()
    assert not project.project.storage_root.exists()


def test_the_output_folder_of_another_dataset_is_refused_naming_both(
    project: "ProjectFolder",
) -> None:
    project.write_pictures(range(2))
    project.write_recipe("one")
    assert project.run("one").ok
    before = project.layout("one").dataset_json.read_bytes()
    project.write_recipe("two", output={"output_dir": "out/one"})
    refused = project.run("two")
    assert refused.error is not None
    assert "out/one" in refused.error[1]
    assert "two" in refused.error[1]
    assert project.layout("one").dataset_json.read_bytes() == before
    assert validate_dataset(project.layout("one").output_dir).ok
    # The other way round: the recipe's work belongs to the folder it was made for.
    project.write_recipe("one", output={"output_dir": "out/elsewhere"})
    moved = project.run("one")
    assert moved.error is not None
    assert "out/one" in moved.error[1]
    assert "out/elsewhere" in moved.error[1]


def test_a_vae_of_other_channels_leaves_the_old_dataset_until_all_is_done(
    project: "ProjectFolder", tmp_path: Path
) -> None:
    project.write_pictures(range(6))
    project.write_recipe()
    assert project.run().ok
    old = sorted(path.name for path in project.layout().output_dir.glob("*.tar"))
    write_wide_vae(tmp_path / "vae8")
    project.write_recipe_over(model={"vae_path": str(tmp_path / "vae8")})
    # The text encoders are away: latents are made anew, and nothing is published.
    caption = next((project.pictures / "captions").iterdir())
    text = caption.read_bytes()
    caption.write_text("another caption")
    project.write_recipe_over(model={"clip_path": str(tmp_path / "none")})
    broken = project.run()
    assert not broken.ok
    assert sorted(path.name for path in project.layout().output_dir.glob("*.tar")) == old
    assert validate_dataset(project.layout().output_dir).ok
    caption.write_bytes(text)
    project.write_recipe_over(model={"clip_path": None})
    report = project.run()
    assert report.error is None
    assert report.summaries["encode_latents"].samples.encoded == 6
    assert report.summaries["encode_text"].samples.encoded == 0
    assert validate_dataset(project.layout().output_dir, full=True).ok
    new = sorted(path.name for path in project.layout().output_dir.glob("*.tar"))
    assert not set(new) & set(old)


def write_wide_vae(folder: Path) -> None:
    """A VAE of 8 latent channels."""
    torch.manual_seed(0)
    settings: dict[str, Any] = {
        "down_block_types": ("DownEncoderBlock2D",) * 4,
        "up_block_types": ("UpDecoderBlock2D",) * 4,
        "block_out_channels": (8, 16, 16, 16),
        "latent_channels": 8,
        "norm_num_groups": 4,
        "scaling_factor": 0.5,
        "shift_factor": 0.1,
        "use_quant_conv": False,
        "use_post_quant_conv": False,
    }
    AutoencoderKL(**settings).save_pretrained(folder)


def test_local_folders_call_no_hub_offline_or_not(
    project: "ProjectFolder", hub: "DatasetHub", monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    write_parquet(project.folder / "hub" / "train.parquet", [draw(0), draw(1)])
    project.write_recipe(source={"type": "huggingface", "hf_dataset": "hub"})
    project.dataset().check_encoders()
    assert len(project.dataset().source.listing().files) == 1
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert project.run().written == 2
    assert hub.requests == []


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o620, 0o700, 0o777, 0o444])
def test_a_token_file_that_others_may_read_is_refused_naming_the_mode_wanted(
    project: "ProjectFolder", hub: "DatasetHub", mode: int
) -> None:
    hub.add(REPO, {"train.parquet": b""})
    token = project.folder / "token"
    token.write_text("hf_secretsecret")
    token.chmod(mode)
    project.write_recipe(source=SOURCE, auth={"hf_token_file": "token"})
    with pytest.raises(SettingError, match=f"must have mode 600 or 400, got {mode:03o}") as caught:
        project.dataset().source.listing()
    assert "secret" not in str(caught.value)
    assert hub.requests == []
    token.chmod(0o400 if mode & 1 else 0o600)
    project.dataset().source.listing()
    assert hub.tokens == {"Bearer hf_secretsecret"}


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize(
    ("key", "named"),
    [
        ("model_path", "VAE, T5 encoder, CLIP encoder (model.model_path)"),
        ("vae_path", "VAE (model.vae_path)"),
        ("t5_path", "T5 encoder (model.t5_path)"),
        ("clip_path", "CLIP encoder (model.clip_path)"),
    ],
)
def test_a_gated_model_stops_before_any_data_and_names_encoder_page_and_three_ways(
    project: "ProjectFolder", hub: "DatasetHub", status: int, key: str, named: str
) -> None:
    weights = ("vae/diffusion_pytorch_model.safetensors", "model.safetensors")
    names = ("model_index.json", "vae/config.json", "config.json", *weights)
    hub.add("owner/gated", dict.fromkeys(names, b"{}"))
    hub.add(REPO, {"train.parquet": b""})
    hub.gated.add("owner/gated")
    hub.needs_token = "hf_another" if status == 401 else None
    project.write_recipe(source=SOURCE, model={key: "owner/gated"})
    report = project.run()
    assert report.error is not None
    for part in (named, "owner/gated", str(status), f"{hub.url}/owner/gated", *WAYS):
        assert part in report.error[1]
    # Nothing of the dataset was asked for, and no weights.
    assert not [line for line in hub.requests if REPO in line]
    assert not [line for line in hub.requests if line.startswith("GET") and "safetensors" in line]


def listed(project: "ProjectFolder") -> list[str]:
    """What the Hub dataset of a recipe holds."""
    project.write_recipe(source=SOURCE)
    return [file.path for file in project.dataset().source.listing().files]


@pytest.mark.parametrize("fault", [429, 503, 500, 408, "reset"])
def test_a_busy_hub_is_waited_for_as_long_as_it_asks(
    project: "ProjectFolder", hub: "DatasetHub", monkeypatch: pytest.MonkeyPatch, fault: object
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(polite.time, "sleep", waits.append)
    hub.add(REPO, {"train.parquet": b""})
    hub.retry_after = "7"
    hub.faults["GET /api/datasets"] = [fault, fault]
    assert listed(project) == ["train.parquet"]
    assert waits == ([1, 2] if fault == "reset" else [7, 7])


def test_a_hub_that_does_not_answer_is_asked_again_and_its_file_is_never_missing(
    project: "ProjectFolder", hub: "DatasetHub", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets, "_TIMEOUT_S", 0.2)
    monkeypatch.setattr(polite, "FIRST_WAIT_S", 0.01)
    write_parquet(project.folder / "x.parquet", [draw(0)])
    hub.add(REPO, {"train.parquet": (project.folder / "x.parquet").read_bytes()})
    assert listed(project) == ["train.parquet"]
    hub.faults["GET /storage/"] = ["silent", "reset", 503]
    found = looked_through(project.folder, source=SOURCE)
    assert (found.codes, list(found.kept)) == ({}, ["train.parquet::0"])
    assert hub.faults["GET /storage/"] == []


def test_a_hub_that_stays_busy_ends_the_run_and_leaves_no_sample_out(
    project: "ProjectFolder", hub: "DatasetHub", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polite.time, "sleep", lambda _: None)
    hub.add(REPO, {"train.parquet": b""})
    hub.faults["GET /api/datasets"] = [429] * 20
    with pytest.raises(SourceAccessError, match="HTTP 429"):
        listed(project)
    hub.faults.clear()
    hub.faults["HEAD /datasets"] = [503] * 20
    report = project.run()
    assert report.error is not None
    assert "HTTP 503" in report.error[1]
    assert report.rejects == {}
