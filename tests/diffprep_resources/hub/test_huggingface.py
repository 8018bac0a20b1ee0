import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hub_server import DatasetHub

Run = Callable[..., subprocess.CompletedProcess[str]]

IDENTIFY = """
found = family_for(EncoderSettings(model_path="owner/flux"), hub=hub)
for role, identity in found.identities().items():
    print(role, identity.weights.kind, identity.weights.revision, identity.weights.subfolder)
assert found.text_layout()["prompt_embeds"] == ("bfloat16", (512, 4096))
assert found.latents_layout(64, 64)["latents"] == ("bfloat16", (16, 8, 8))
"""
FETCH = IDENTIFY + "found.fetch()\n"
CONFIGS = {
    "model_index.json",
    "vae/config.json",
    "text_encoder/config.json",
    "text_encoder_2/config.json",
    "text_encoder_2/model.safetensors.index.json",
}
WEIGHTS = {
    "vae/diffusion_pytorch_model.safetensors",
    "text_encoder/model.safetensors",
    "tokenizer/vocab.json",
    "tokenizer/merges.txt",
    "text_encoder_2/model-1.safetensors",
    "text_encoder_2/model-2.safetensors",
    "tokenizer_2/spiece.model",
    "tokenizer_2/tokenizer_config.json",
}
DOWNLOADS = """
found = family_for(EncoderSettings(model_path="owner/flux"), hub=hub)
print(dict(found.download_bytes()))
found.fetch()
print(dict(found.download_bytes()))
"""
WAYS = ("auth.hf_token_file", "--hf-token-file", "HF_TOKEN", "hf auth login")


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("hf_secretsecret\n")
    path.chmod(0o600)
    return path


def test_an_identity_is_the_commit_and_fetches_configs_only(
    hub_server: DatasetHub, flux_files: dict[str, bytes], run_script: Run
) -> None:
    commit = hub_server.add("owner/flux", flux_files)
    result = run_script(IDENTIFY)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        f"vae hub {commit} vae",
        f"t5 hub {commit} text_encoder_2",
        f"clip hub {commit} text_encoder",
    ]
    assert set(hub_server.fetched()) == CONFIGS


def test_fetching_takes_the_files_that_are_loaded_and_no_others(
    hub_server: DatasetHub, flux_files: dict[str, bytes], run_script: Run
) -> None:
    hub_server.add("owner/flux", flux_files)
    result = run_script(FETCH)
    assert result.returncode == 0, result.stderr
    assert set(hub_server.fetched()) == CONFIGS | WEIGHTS


def test_what_was_fetched_once_serves_offline_and_while_the_hub_is_down(
    hub_server: DatasetHub, flux_files: dict[str, bytes], run_script: Run
) -> None:
    hub_server.add("owner/flux", flux_files)
    online = run_script(FETCH)
    hub_server.requests.clear()
    offline = run_script(FETCH, HF_HUB_OFFLINE="1")
    assert hub_server.requests == []
    hub_server.down = True
    down = run_script(FETCH)
    assert (offline.returncode, down.returncode) == (0, 0), offline.stderr + down.stderr
    assert online.stdout == offline.stdout == down.stdout
    assert "Using cached commit hash" in down.stderr


@pytest.mark.parametrize(
    ("override", "subfolder"), [("owner/flux", "text_encoder_2"), ("owner/bare", "")]
)
def test_an_override_may_be_a_repository_or_a_bare_encoder_on_the_hub(
    hub_server: DatasetHub,
    flux_files: dict[str, bytes],
    run_script: Run,
    override: str,
    subfolder: str,
) -> None:
    bare = ("text_encoder_2/", "tokenizer_2/")
    hub_server.add("owner/main", flux_files)
    hub_server.add("owner/flux", flux_files)
    subset = {name: data for name, data in flux_files.items() if name.startswith(bare)}
    hub_server.add("owner/bare", {name.partition("/")[2]: data for name, data in subset.items()})
    result = run_script(f"""
found = family_for(EncoderSettings(model_path="owner/main", t5_path="{override}"), hub=hub)
found.fetch()
t5 = found.identities()["t5"]
print(t5.weights.reference, repr(t5.weights.subfolder), t5.tokenizer.reference)
""")
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == f"{override} {subfolder!r} {override}"


def test_a_gated_repository_is_refused_before_any_weights(
    hub_server: DatasetHub, flux_files: dict[str, bytes], run_script: Run, token_file: Path
) -> None:
    hub_server.add("owner/flux", flux_files)
    hub_server.gated.add("owner/flux")
    result = run_script(IDENTIFY, str(token_file))
    error = result.stderr.strip().splitlines()[-1]
    assert "ModelError" in error
    for part in ("VAE, T5 encoder, CLIP encoder", "model.model_path", "403", *WAYS):
        assert part in error
    assert f"Accept its licence at {hub_server.url}/owner/flux" in error
    assert not any(".safetensors" in line for line in hub_server.requests)


def test_the_failing_encoder_is_named(
    hub_server: DatasetHub, flux_files: dict[str, bytes], run_script: Run
) -> None:
    hub_server.add("owner/main", flux_files)
    result = run_script(
        'family_for(EncoderSettings(model_path="owner/main", clip_path="owner/none"), hub=hub)'
    )
    error = result.stderr.strip().splitlines()[-1]
    for part in ("CLIP encoder (model.clip_path)", "owner/none", "404", *WAYS):
        assert part in error
    assert f"{hub_server.url}/owner/none" in error


def test_a_private_repository_opens_with_the_token_file_which_is_never_shown(
    hub_server: DatasetHub, flux_files: dict[str, bytes], run_script: Run, token_file: Path
) -> None:
    hub_server.add("owner/flux", flux_files)
    hub_server.needs_token = "hf_secretsecret"
    script = FETCH + "print(repr(hub), repr(found))\n"
    assert run_script(script, str(token_file)).returncode == 0
    assert hub_server.tokens == {"Bearer hf_secretsecret"}
    token_file.write_text("hf_wrongwrong")
    refused = run_script(script, str(token_file), HF_DEBUG="0")
    from_environment = run_script(script, HF_TOKEN="hf_wrongtoo")
    for result in (refused, from_environment):
        assert result.returncode != 0
        assert "401" in result.stderr.splitlines()[-1]
        shown = result.stdout + result.stderr
        assert "hf_wrong" not in shown
        assert "hf_secret" not in shown


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        ({"HF_HUB_OFFLINE": "1"}, "HF_HUB_OFFLINE is set and the files are not in the local cache"),
        ({"HF_ENDPOINT": "http://127.0.0.1:9"}, "the Hub cannot be reached (ConnectError)"),
    ],
)
def test_a_repository_out_of_reach_is_refused_with_the_reason(
    run_script: Run, environment: dict[str, str], reason: str
) -> None:
    result = run_script(IDENTIFY, **environment)
    error = result.stderr.strip().splitlines()[-1]
    assert "ModelError" in error
    assert "VAE, T5 encoder, CLIP encoder (model.model_path)" in error
    assert reason in error


def test_an_unsupported_pipeline_is_refused_after_its_index_alone(
    hub_server: DatasetHub, flux_files: dict[str, bytes], run_script: Run
) -> None:
    flux_files["model_index.json"] = b'{"_class_name": "HunyuanVideoPipeline"}'
    hub_server.add("owner/flux", flux_files)
    result = run_script(IDENTIFY)
    assert "is a HunyuanVideoPipeline, which is not supported" in result.stderr.splitlines()[-1]
    assert set(hub_server.fetched()) == {"model_index.json"}


def test_a_pinned_family_fetches_its_own_commit_after_a_new_one_appears(
    hub_server: DatasetHub, flux_files: dict[str, bytes], run_script: Run
) -> None:
    commit = hub_server.add("owner/flux", flux_files)
    result = run_script("""
import pickle
found = pickle.loads(pickle.dumps(family_for(EncoderSettings(model_path="owner/flux"), hub=hub)))
found.fetch()
print(found.components["vae"].weights.folder())
""")
    assert result.returncode == 0, result.stderr
    assert f"/snapshots/{commit}/vae" in result.stdout


def test_what_is_to_be_fetched_is_told_in_bytes_before_it_is(
    hub_server: DatasetHub, flux_files: dict[str, bytes], run_script: Run
) -> None:
    hub_server.add("owner/flux", flux_files)
    result = run_script(DOWNLOADS)
    assert result.returncode == 0, result.stderr
    t5 = [name for name in WEIGHTS if "_2/" in name]
    clip = [name for name in WEIGHTS if "_2/" not in name and "vae/" not in name]
    expected = {
        "vae": len(flux_files["vae/diffusion_pytorch_model.safetensors"]),
        "t5": sum(len(flux_files[name]) for name in t5),
        "clip": sum(len(flux_files[name]) for name in clip),
    }
    assert result.stdout.splitlines() == [str(expected), str(dict.fromkeys(expected, 0))]


def test_weights_that_may_not_be_read_are_found_out_before_they_are_fetched(
    hub_server: DatasetHub, flux_files: dict[str, bytes], run_script: Run
) -> None:
    hub_server.add("owner/flux", flux_files)
    hub_server.faults["vae/diffusion_pytorch_model.safetensors"] = [403] * 9
    error = run_script(DOWNLOADS).stderr.strip().splitlines()[-1]
    assert "ModelError" in error
    for part in ("owner/flux", "403", *WAYS):
        assert part in error
