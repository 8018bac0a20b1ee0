"""What the commands of `diffprep` share: consoles, exit codes, options, errors in words."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.markup import escape

from diffprep_assets.way_out import with_way_out
from diffprep_resources.errors import DiffprepError, SettingError

Command = TypeVar("Command", bound=Callable[..., Any])
FAILED = 1
WRONG_USE = 2
STOPPED = 130

out = Console()
err = Console(stderr=True)

Name = Annotated[str, typer.Argument(help="a recipe's name, or the path of a recipe file")]
ProjectDir = Annotated[
    Path | None,
    typer.Option("--project", help="folder with dagster_project.toml; else found upward from here"),
]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object on stdout")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", help="section.key=value, as if the recipe said so, for this run"),
]
MaxSamples = Annotated[int | None, typer.Option(min=1, help="as output.max_samples")]
Device = Annotated[str | None, typer.Option(help="where encoders run: cpu, cuda:0, ...")]
Vae = Annotated[
    str | None,
    typer.Option(help="VAE to decode with, a repository or its folder; else the recorded one"),
]
Workers = Annotated[
    int | None, typer.Option(min=1, help="processes that read, decode, and encode on the CPU")
]
BatchSize = Annotated[int | None, typer.Option(min=1, help="samples encoded at once")]


def changes_of(overrides: list[str] | None) -> dict[str, object]:
    """What `--set` changes, by dotted key. Raises SettingError for a text without key or value."""
    changes: dict[str, object] = {}
    for text in overrides or ():
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise SettingError(f"--set takes section.key=value, got {text!r}")
        changes[key.strip()] = value
    return changes


def explained(command: Command) -> Command:
    """Turns errors raised on purpose into a message and an exit code."""

    @wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except DiffprepError as error:
            err.print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)
            raise typer.Exit(WRONG_USE if isinstance(error, SettingError) else FAILED) from error
        except BrokenPipeError:
            raise
        except OSError as error:
            # A full or read-only disk, a mount that went: the message names the file.
            err.print(f"[bold red]error:[/] {escape(with_way_out(str(error)))}", soft_wrap=True)
            raise typer.Exit(FAILED) from error
        except KeyboardInterrupt as error:
            err.print("stopped; what is finished is kept, and the next run goes on from there")
            raise typer.Exit(STOPPED) from error

    return run  # pyright: ignore[reportReturnType] (a wrapper has the command's signature)
