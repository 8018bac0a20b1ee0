"""Imports run one way, and what is slow or optional loads late."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted(
    path.relative_to(ROOT)
    for package in ("diffprep_assets", "diffprep_resources")
    for path in (ROOT / package).rglob("*.py")
)
SHELL_NAMES = {"assets.py", "checks.py", "resource.py"}
SHELL_FILES = {
    Path("diffprep_assets") / name
    for name in (
        *("definitions.py", "dataset_graph.py", "jobs.py"),
        *("partitions.py", "shard_events.py", "cli.py"),
    )
}
# What a trainer imports needs torch and energon anyway.
TRAINERS = Path("diffprep_resources/trainers")
HEAVY = {
    *("torch", "diffusers", "transformers", "megatron", "webdataset", "datasets"),
    *("ray", "lance", "streaming", "vllm", "safetensors.torch", "duckdb"),
}


def imported(node: ast.AST) -> list[str]:
    """The modules that a statement imports, by full name."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        module = node.module or ""
        return [module, *(f"{module}.{alias.name}" for alias in node.names)]
    return []


def module_level(tree: ast.Module) -> Iterator[ast.AST]:
    """Statements that run when the module is imported; not what only a type checker sees."""
    pending: list[ast.AST] = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            pending.extend(node.orelse)
            continue
        yield node
        pending.extend(ast.iter_child_nodes(node))


def parse(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text("utf-8"))


def is_of(name: str, packages: set[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def offences(nodes: Iterator[ast.AST] | list[ast.AST], packages: set[str]) -> list[str]:
    return [
        f"line {node.lineno}: {name}"  # pyright: ignore[reportAttributeAccessIssue] "lineno" is on every statement
        for node in nodes
        for name in imported(node)
        if is_of(name, packages)
    ]


def test_there_are_sources_to_look_at():
    assert len(SOURCES) > 80


@pytest.mark.parametrize("path", SOURCES, ids=str)
def test_the_layers_hold(path: Path):
    tree = parse(path)
    everything = list(ast.walk(tree))
    if path.parts[0] == "diffprep_resources":
        assert offences(everything, {"diffprep_assets"}) == []
    if path.name not in SHELL_NAMES and path not in SHELL_FILES:
        # Also inside functions: a pure file does not know of Dagster.
        assert offences(everything, {"dagster", "dagster_webserver"}) == []
    if path.parent != TRAINERS:
        assert offences(module_level(tree), HEAVY) == []
    if path.name == "__init__.py":
        assert tree.body == []


def test_the_checks_above_see_an_offence():
    tree = ast.parse("class A:\n    from torch import nn\nif x:\n    import dagster.core\n")
    assert offences(module_level(tree), {"torch"}) == ["line 2: torch", "line 2: torch.nn"]
    assert offences(module_level(tree), {"dagster"}) == ["line 4: dagster.core"]
    lazy = ast.parse("if TYPE_CHECKING:\n    import torch\ndef f():\n    import torch\n")
    assert offences(module_level(lazy), {"torch"}) == []
    assert offences(list(ast.walk(lazy)), {"torch"}) != []


def test_a_trainer_imports_the_task_encoder_without_dagster_or_diffusers():
    code = (
        "import sys, diffprep_resources.trainers.energon\n"
        "print(*sorted({'dagster', 'diffusers', 'transformers', 'diffprep_assets'} "
        "& sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""
