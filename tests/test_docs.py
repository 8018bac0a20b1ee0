"""The documentation says what the code does: keys, columns, codes, commands, options, links."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

import click
import pyarrow as pa
import pytest
import typer
from dagster._cli import create_dagster_cli
from pydantic import BaseModel

from diffprep_assets.bucket import table as bucket
from diffprep_assets.cli import app
from diffprep_assets.curate import table as curate
from diffprep_assets.curate.skip_files import STORED
from diffprep_assets.download import table as download
from diffprep_assets.energon_prepare.index import DIGESTS_SCHEMA, MetaFiles
from diffprep_assets.freshness import FORMAT_VERSIONS
from diffprep_assets.picture_hash import table as picture_hash
from diffprep_assets.primus_command import PRIMUS_FLAGS, PRIMUS_RAW_FLAGS
from diffprep_assets.recipe.execution import RECIPE_KEYS, ExecutionSettings
from diffprep_assets.recipe.schema import Recipe
from diffprep_assets.rejects import SCHEMA as REJECTS_SCHEMA
from diffprep_assets.shard.members import SampleMetadata
from diffprep_assets.shard.record import SAMPLES_SCHEMA, ShardRecord
from diffprep_assets.shard_energon_video.members import ClipMetadata
from diffprep_assets.shard_plan.table import PLAN_SCHEMA, SHARDS_SCHEMA
from diffprep_assets.source_columns import table as source_columns
from diffprep_assets.source_index import table as source_index
from diffprep_resources.errors import REJECT_CODES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])

TABLES = {
    "source_index.parquet": source_index.SCHEMA,
    "download/PART.parquet": download.SCHEMA,
    "bucket/PART.parquet": bucket.SCHEMA,
    "picture_hash/PART.parquet": picture_hash.SCHEMA,
    "source_columns/PART.parquet": source_columns.OWN,
    "curate.parquet": curate.SCHEMA,
    "skips/NAME.parquet": STORED,
    "shard_plan.parquet": PLAN_SCHEMA,
    "shards.parquet": SHARDS_SCHEMA,
    "shards/SHARD.parquet": SAMPLES_SCHEMA,
    "rejects.parquet": REJECTS_SCHEMA,
    "digests.parquet": DIGESTS_SCHEMA,
}


def rows(text: str) -> dict[str, list[str]]:
    """The rows of all tables in a page whose first cell is one word in backticks, by that word."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        match = re.fullmatch(r"\| `([^`]+)` \|(.*)\|", line.strip())
        if match:
            found[match[1]] = [cell.strip() for cell in re.split(r"(?<!\\)\|", match[2])]
    return found


def section(page: Path, heading: str) -> str:
    """What stands below a heading, up to the next one."""
    _, found, rest = page.read_text("utf-8").partition(f"\n### {heading}\n")
    assert found, f"{page.name} has no section {heading}"
    return re.split(r"\n##+ ", rest)[0]


def recipe_fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted key, pydantic field) of every key that a recipe file may hold."""
    for name, field in model.model_fields.items():
        inner = [kind for kind in (field.annotation, *get_args(field.annotation))]
        models = [kind for kind in inner if isinstance(kind, type) and issubclass(kind, BaseModel)]
        if not models or (not field.is_required() and field.default is None):
            yield prefix + name, field
        for kind in models:
            yield from recipe_fields(kind, f"{prefix}{name}.")


def documented_fields() -> dict[str, Any]:
    execution = ExecutionSettings.model_fields
    return dict(recipe_fields(Recipe)) | {f"model.{name}": execution[name] for name in RECIPE_KEYS}


def described_fields() -> dict[str, list[str]]:
    """Type, default and meaning by key; the last table of the page is on something else."""
    page = (DOCS / "recipes.md").read_text("utf-8")
    return rows(page.partition("## What a changed key redoes")[0])


def default_text(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    return str(value) if isinstance(value, Fraction | str | int | float) else repr(value)


def test_every_recipe_key_is_documented_and_no_other() -> None:
    assert described_fields().keys() == documented_fields().keys()


def test_documented_defaults_are_those_of_the_schema() -> None:
    described = described_fields()
    for key, field in documented_fields().items():
        wanted = "required" if field.is_required() else default_text(field.default)
        assert described[key][1] == wanted, key


def test_allowed_words_of_a_key_are_documented() -> None:
    described = described_fields()
    for key, field in documented_fields().items():
        for word in get_args(field.annotation):
            if isinstance(word, str):
                assert f"`{word}`" in described[key][0], key


@pytest.mark.parametrize("heading", TABLES)
def test_every_column_is_documented_with_its_type(heading: str) -> None:
    described = rows(section(DOCS / "data.md", heading))
    schema = TABLES[heading]
    assert list(described) == schema.names
    for column in schema:
        kind, null, _ = described[column.name]
        assert (kind, null) == (type_text(column.type), "yes" if column.nullable else "no"), column


def type_text(kind: pa.DataType) -> str:
    if pa.types.is_struct(kind):
        return f"struct({', '.join(field.name for field in kind)})"
    if pa.types.is_list(kind):
        return f"list of {type_text(kind.value_type)}"
    return str(kind)


def test_every_key_of_the_json_files_is_documented() -> None:
    members = rows(section(DOCS / "data.md", "shards/SHARD.tar"))
    keys = {name: cells for name, cells in members.items() if not name.startswith("K.")}
    assert list(keys) == [column.name for column in fields(SampleMetadata)]
    record = rows(section(DOCS / "data.md", "shards/SHARD.json"))
    assert list(record) == ["version", *(column.name for column in fields(ShardRecord))]


def test_every_key_of_a_clips_json_is_documented() -> None:
    text = section(DOCS / "data.md", "shards_energon_video/SHARD.tar")
    assert [f.name for f in fields(ClipMetadata) if f"`{f.name}`" not in text] == []


def test_every_metadata_file_is_documented() -> None:
    described = rows(section(DOCS / "data.md", ".nv-meta"))
    assert described.keys() == {path.name for path in MetaFiles(Path()).all()}


def test_every_reject_code_is_documented_and_no_other() -> None:
    described = rows((DOCS / "rejects.md").read_text("utf-8"))
    assert list(described) == list(REJECT_CODES)
    assert all(len(cell) > 5 for cells in described.values() for cell in cells)


def test_every_flag_of_the_primus_command_is_documented() -> None:
    page = (DOCS / "coming-from-primus.md").read_text("utf-8")
    sections = [*PRIMUS_FLAGS.values(), *PRIMUS_RAW_FLAGS.values()]
    flags = {f"--{key.replace('_', '-')}" for keys in sections for key in keys}
    missing = [flag for flag in flags - {"--finalize"} if f"`{flag}`" not in page]
    assert not missing


def test_the_changelog_names_the_stages_format_version() -> None:
    page = (ROOT / "CHANGELOG.md").read_text("utf-8")
    table = page.partition("### Files on disk")[2]
    versions = set(FORMAT_VERSIONS.values())
    for version in versions:
        assert re.search(rf"FORMAT_VERSIONS.*\| .*{version}", table), version


def commands() -> list[tuple[str, str]]:
    """(page, command) of every shell line in a code block, and every `diffprep ...` in the text."""
    found = []
    for page in PAGES:
        text = page.read_text("utf-8")
        for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
            found += [(page.name, line.strip()) for line in block.splitlines() if line.strip()]
        spans = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
        words = re.compile(r"([A-Z_]+=\S+ )*(diffprep|dagster|make) [a-z]")
        found += [(page.name, span) for span in spans if words.match(span)]
    return found


@pytest.mark.parametrize(("page", "command"), commands())
def test_every_documented_command_exists_with_its_options(page: str, command: str) -> None:
    for inner in re.findall(r'"\$\((.*?)\)"', command):
        check_command(inner)
    check_command(re.sub(r'"\$\(.*?\)"', "a...b", command))


def check_command(command: str) -> None:
    words = [word for word in shlex.split(command) if not re.fullmatch(r"[A-Z_]+=.*", word)]
    if words[0] == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
        assert set(words[1:]) <= set(targets)
    elif words[0] == "diffprep":
        check_options(typer.main.get_command(app), words)
    elif words[0] == "dagster":
        check_options(create_dagster_cli(), words)
    else:
        assert words[0] in {"cd", "pip", "source", "hf"}, command


def check_options(command: Any, words: list[str]) -> None:
    """Raises where a subcommand or an option is unknown, or an argument is one too many."""
    rest = words[1:]
    # typer may bring its own copy of click: a group is told by what it can do.
    while hasattr(command, "commands") and rest:
        assert rest[0] in command.commands, " ".join(words)
        command, rest = command.commands[rest[0]], rest[1:]
    options = {
        name: parameter
        for parameter in command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
    }
    positional = []
    while rest:
        word = rest.pop(0)
        if word.startswith("-"):
            assert word in options, " ".join(words)
            if not options[word].is_flag:
                rest = rest[1:]
        else:
            positional.append(word)
    arguments = [name for name in options if not name.startswith("-")]
    assert len(positional) <= len(arguments), " ".join(words)


def test_an_unknown_option_is_found_out() -> None:
    with pytest.raises(AssertionError):
        check_command("diffprep run demo --sett a=b")
    with pytest.raises(AssertionError):
        check_command("diffprep rum demo")
    with pytest.raises(AssertionError):
        check_command("dagster asset materialize --choose demo/bucket")
    assert isinstance(create_dagster_cli(), click.Group)


def test_every_command_of_diffprep_is_in_the_readme() -> None:
    page = (ROOT / "README.md").read_text("utf-8")
    known: Any = typer.main.get_command(app)
    missing = [name for name in known.commands if f"`diffprep {name}" not in page]
    assert not missing


def test_every_command_has_a_section_that_names_its_options() -> None:
    """In commands.md, or in the pages that the section links to."""
    known: Any = typer.main.get_command(app)
    for name, command in known.commands.items():
        text = section(DOCS / "commands.md", f"diffprep {name}")
        linked = re.findall(r"\]\(([a-z-]+\.md)", text)
        pages = [text, *((DOCS / page).read_text("utf-8") for page in linked)]
        options = [parameter.opts[0] for parameter in command.params]
        for option in options:
            if option.startswith("--") and option != "--project":
                assert any(option in page for page in pages), f"{name} {option}"


def test_every_link_between_pages_leads_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)]+)\)", page.read_text("utf-8")):
            if "://" in target:
                continue
            path, _, anchor = target.partition("#")
            file = page.parent / path if path else page
            assert file.exists(), f"{page.name}: {target}"
            if anchor:
                headings = re.findall(r"^#+ (.*)$", file.read_text("utf-8"), re.MULTILINE)
                anchors = [re.sub(r"[^a-z0-9_ -]", "", name.lower()) for name in headings]
                assert anchor in [name.replace(" ", "-") for name in anchors], target


def test_pages_are_plain_ascii_with_lines_of_bounded_length() -> None:
    for page in PAGES:
        for number, line in enumerate(page.read_text("ascii").splitlines(), 1):
            plain = not line.startswith("|") and "](" not in line
            in_code = line.lstrip().startswith(("dagster ", "diffprep "))
            assert len(line) <= 120 or not plain or in_code, f"{page.name}:{number}"


def test_the_licence_is_the_whole_text_of_apache_2() -> None:
    text = (ROOT / "LICENSE").read_text("utf-8")
    assert "Version 2.0, January 2004" in text
    assert text.rstrip().endswith("limitations under the License.")
    assert "Copyright [yyyy] [name of copyright owner]" in text
