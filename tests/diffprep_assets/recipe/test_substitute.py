import pytest

from diffprep_assets.recipe.substitute import shield, substitute, unshield

TEXT = """\
source: {{type: directory, input_dir: {0}}}
output: {{output_dir: out}}
"""


@pytest.mark.parametrize(
    ("value", "expected"), [(None, "data/in"), ("other", "other"), ("a: b # c", "a: b # c")]
)
def test_unset_gives_the_default_and_set_gives_the_value(
    load, monkeypatch: pytest.MonkeyPatch, value: str | None, expected: str
):
    if value is None:
        monkeypatch.delenv("PICTURES", raising=False)
    else:
        monkeypatch.setenv("PICTURES", value)
    loaded = load(TEXT.format("${PICTURES:data/in}"))
    assert loaded.recipe.source.input_dir == expected


def test_set_to_empty_gives_the_empty_text_not_the_default(
    load, refuse, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PICTURES", "")
    loaded = load(TEXT.format("in${PICTURES:_default}"))
    assert loaded.recipe.source.input_dir == "in"
    message = refuse(TEXT.format("x").replace(": out", ": ${PICTURES:default}"))
    assert message == 'line 2: output.output_dir must not be empty, got ""'


def test_an_empty_value_leaves_an_optional_key_unset(load, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("VAE", "")
    loaded = load(TEXT.format("x") + "model: {vae_path: '${VAE:some/vae}'}\n")
    assert loaded.recipe.model.vae_path is None


def test_a_value_is_read_as_yaml_where_it_stands_alone(load, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SIZE", "512")
    monkeypatch.setenv("CROP", "true")
    loaded = load(TEXT.format("x") + "image: {image_size: ${SIZE}, center_crop: ${CROP:false}}\n")
    assert loaded.recipe.image.image_size == 512
    assert loaded.recipe.image.center_crop is True


def test_a_value_in_quotes_stays_text(load, refuse, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SIZE", "512")
    message = refuse(TEXT.format("x") + 'image:\n  image_size: "${SIZE}"\n')
    assert message.startswith('line 4: image.image_size must be a whole number, got "512"')
    assert load(TEXT.format('"${SIZE}"')).recipe.source.input_dir == "512"


def test_references_work_in_lists_and_flow_mappings(load, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TIER", "512")
    text = "source: {type: directory, input_dir: x}\n"
    text += "output: {output_dir: out, shard_size: {${TIER}: ${N:20}, 1024: 5}}\n"
    text += "image: {buckets: {tiers: [${TIER}, ${TOP:1024}]}}\n"
    loaded = load(text)
    assert loaded.recipe.output.shard_size == {512: 20, 1024: 5}


def test_a_value_cannot_add_keys(load, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PICTURES", "x\nimage: {image_size: 64}")
    loaded = load("source:\n  type: directory\n  input_dir: ${PICTURES}\noutput: {output_dir: o}\n")
    assert loaded.recipe.image.image_size == 1024
    assert loaded.recipe.source.input_dir == "x\nimage: {image_size: 64}"


def test_unset_without_default_is_an_error_that_names_the_variable(
    refuse, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("PICTURES", raising=False)
    message = refuse("source:\n  type: directory\n  input_dir: ${PICTURES}/a\noutput: {}\n")
    assert "line 3: source.input_dir needs the environment variable PICTURES" in message
    assert "${PICTURES:default}" in message
    assert "input_dir is required" not in message


@pytest.mark.parametrize("text", ["${PICTURES", "${1X}", "${A:${B:x}}", "${}"])
def test_a_malformed_reference_is_an_error(refuse, text: str):
    message = refuse(f"source:\n  type: directory\n  input_dir: '{text}'\noutput: {{}}\n")
    assert "line 3: source.input_dir has a ${ that is not a reference" in message


def test_the_shells_spelling_of_a_default_is_an_error(refuse):
    message = refuse(TEXT.format("${PICTURES:-data}"))
    assert "the shell's spelling; here it is ${PICTURES:default}" in message


def test_references_in_comments_are_nothing(load):
    assert load("# ${NOWHERE} and ${\n" + TEXT.format("x") + "  # ${NOWHERE}\n")


def test_the_hash_covers_the_substituted_value(load, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PICTURES", "x")
    assert load(TEXT.format("${PICTURES}")).recipe_hash == load(TEXT.format("x")).recipe_hash


def test_shielding_and_unshielding_are_inverse():
    text = "a ${B} ${C:d e} ${F:}"
    shielded, references = shield(text)
    assert "$" not in shielded
    assert unshield(shielded, references) == text
    assert [reference.default for reference in references] == [None, "d e", ""]


def test_several_references_join():
    shielded, references = shield("${A}/${B:b}")
    assert substitute(shielded, references, environment={"A": "a"}) == "a/b"
    assert substitute("plain", [], environment={}) is None
