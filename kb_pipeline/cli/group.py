"""The group of commands, which module holds which, and how each ends. Modules import heavy things inside commands."""

import importlib
import signal
import sys

import click

from kb_pipeline import __version__
from kb_pipeline.cli.output import printable
from kb_pipeline.cli.stops import end
from kb_pipeline.errors import KbError, UsageError

_COMMANDS: dict[str, str] = {
    "init": "manage", "create": "manage", "add": "manage", "apply": "manage", "sources": "manage", "docs": "manage",
    "plan": "plan", "sync": "sync", "retry": "again", "reingest": "again", "budget": "plan", "share": "share",
    "search": "search", "eval": "search", "remove": "gone", "forget": "gone", "unforget": "gone", "doctor": "doctor",
    "sql": "tables", "export": "tables", "maintain": "maintain", "demo": "demo",
    "spaces": "spaces", "promote": "spaces", "rollback": "spaces", "set": "spaces",
}  # fmt: skip


class _Commands(click.Group):
    """Loads a command's module when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _COMMANDS.get(cmd_name)
        if module is None:
            return None
        command: click.Command = getattr(importlib.import_module(f"kb_pipeline.cli.{module}"), f"{cmd_name}_command")
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="kb")
def kb() -> None:
    """Searchable, citable knowledge bases from feeds, pages, files and records, kept true as the sources change.

    Everything lives in KB_HOME (default ./kb_home).
    """


def run() -> None:
    """Run a command; every failure is a sentence and an exit code."""
    try:
        kb(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except (click.Abort, KeyboardInterrupt) as stop:
        came = getattr(stop.__cause__ or stop, "args", ())  # click makes an Abort of it
        end(came[0] if came else signal.SIGINT)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except UsageError as error:
        click.echo(f"Error: {printable(str(error))}", err=True)
        sys.exit(2)
    except KbError as error:
        click.echo(f"Error: {printable(str(error))}", err=True)
        sys.exit(1)
    except (FileExistsError, NotADirectoryError) as error:
        click.echo(f"Error: {error.filename} is no folder and cannot become one; give another path.", err=True)
        sys.exit(2)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        click.echo(
            f"Error: {error.strerror or error}{where}. Free the disk or mend access, then run it again.", err=True
        )
        sys.exit(1)
    except _loaded("sqlite3.Error", "sqlalchemy.exc.SQLAlchemyError") as error:
        reason = str(getattr(error, "orig", None) or error).splitlines()[0]
        click.echo(f"Error: A database cannot be used: {reason}. `kb doctor` says which; then run it again.", err=True)
        sys.exit(1)


def _loaded(*names: str) -> tuple[type[Exception], ...]:
    """Those of the exceptions whose module is loaded: no other can have been raised, and their import takes long."""
    parts = [name.rpartition(".") for name in names]
    return tuple(getattr(sys.modules[module], name) for module, _, name in parts if module in sys.modules)
