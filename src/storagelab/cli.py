"""The command line. It finds each verb in its file of `verbs`, prints each error once, and sets the exit code:

    0    done
    1    some runs failed (`compare`: too slow)
    2    the user's mistake
    3    `compare` can't tell
    4    `run` waits for a person
    70   an error in storagelab itself
    130  interrupted

Data goes to stdout, and everything else to stderr."""

from __future__ import annotations

import os
import pkgutil
import signal
import sys
import traceback
from importlib import import_module
from typing import Annotated, Any, get_args

import typer
import typer.main
from typer import Option
from typer.core import TyperGroup

from storagelab import __version__, screen, verbs
from storagelab.errors import StoragelabError
from storagelab.stopping import INTERRUPTED, Interruptible

OWN_ERROR = 70
"""The exit code of an unexpected error (EX_SOFTWARE). Because of this code, scripts can't mistake the error for a
failed run or a gate's answer."""
TRACEBACK = "STORAGELAB_TRACEBACK"
"""The environment variable that makes an unexpected error print its traceback."""
ISSUES = "the project's issue tracker"


class _Verbs(TyperGroup):
    """The verbs in groups. Each verb is loaded when it is needed. If the value of an option is wrong, the message is in
    plain words.
    """

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - the signature is click's
        if cmd_name not in self.commands and cmd_name in _names():
            self.commands[cmd_name] = typer.main.get_command(_verb(cmd_name))
            self.commands[cmd_name].name = cmd_name
        return self.commands.get(cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        panels = get_args(verbs.Panel)
        found = {name: _verb(name) for name in _names()}
        return sorted(found, key=lambda name: (panels.index(found[name].panel), found[name].place, name))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        every = self.list_commands(ctx)
        for panel in get_args(verbs.Panel):
            with formatter.section(panel):
                shown = [(name, self.get_command(ctx, name)) for name in every if _verb(name).panel == panel]
                formatter.write_dl([(name, command.get_short_help_str(72)) for name, command in shown])

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # the reader has ended (`| head`); Python must not flush
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(128 + signal.SIGPIPE)  # as if that signal had ended it, because 1 would be a gate's answer
        except typer.BadParameter as error:
            error.message = error.message.replace("Value error, ", "")
            if error.message.startswith("'pdf' "):
                error.message += " For a PDF, print the page (html) in a browser; --brief is made for one sheet."
            raise


def _names() -> list[str]:
    return [one.name for one in pkgutil.iter_modules(verbs.__path__) if not one.name.startswith("_")]


def _verb(name: str) -> verbs.Verb:
    app: verbs.Verb = import_module(f"{verbs.__name__}.{name}").app
    return app


app = typer.Typer(
    cls=_Verbs,
    help="Which storage layout is fastest for this database, by how much, and why?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, Option("--version", help="Print the version and exit.", is_eager=True)] = False,
) -> None:
    if version:
        _say_version()
        raise typer.Exit


def _say_version() -> None:
    screen.say(f"storagelab {__version__}", stdout=True)


def main() -> None:
    """Runs the command line. Only this function converts errors to messages and exit codes."""
    stopping = Interruptible()
    try:
        with stopping:
            if sys.argv[1:] == ["--version"]:
                _say_version()  # before the import of slow libraries for options
            else:
                app(standalone_mode=True)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:  # noqa: BLE001 - it is told
        # After a request to stop, any error is a consequence of the interruption. For example, it may come from a
        # library that was being imported.
        if stopping.asked:
            sys.exit(INTERRUPTED)
        _fail(error)


def _has_folder() -> bool:
    try:
        return bool(os.getcwd())
    except FileNotFoundError:
        return False


def _fail(error: Exception) -> None:
    """Prints the message of an error, and exits with the error's code. If it has none, exits with 2."""
    code = StoragelabError.exit_code
    match error:
        case StoragelabError():
            said, code = str(error), error.exit_code
        case OSError() if not _has_folder():
            said = "this folder no longer exists: go to another (cd)"
        case MemoryError() | ImportError() if isinstance(error, MemoryError) or "map segment" in str(error):
            said = "out of memory: end other programs, or raise limits (ulimit -v, or those of the container)"
        case OSError():
            said = f"{error.filename or 'input/output'}: {error.strerror or error}"
        case _:
            said, code = _unforeseen(error), OWN_ERROR
    screen.say(f"storagelab: {said}")
    sys.exit(code)


def _unforeseen(error: Exception) -> str:
    """Returns one line about an error in storagelab itself. Only the traceback shows the error's text, because the text
    may contain a server's address."""
    if os.environ.get(TRACEBACK):
        screen.say("".join(traceback.format_exception(error)).rstrip())
    at = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{type(error).__name__} in {os.path.basename(at.filename)}, line {at.lineno}"
    return f"an internal error ({where}): report it to {ISSUES}; {TRACEBACK}=1 before the command shows the traceback"
