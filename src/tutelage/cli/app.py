"""The program `tutelage`: it finds the command and returns an exit code.

Every ending is an exit code and at most one message. 0: there is a result (a divergence
is one). 1: the solver gave up before the end, or a claim of a figure fails. 2: bad
input or a file that cannot be written; no part of it is left. 130: interrupted. To add
a command, write its function and add it to `COMMANDS`, with examples.
"""

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches

from cyclopts import App, CycloptsError
from cyclopts.exceptions import UnknownOptionError, UnusedCliTokensError

from tutelage._version import __version__
from tutelage.cli.commands import compare, explore, simulate, solve
from tutelage.cli.process import INTERRUPT_CODE, INTERRUPTED
from tutelage.cli.replicate import replicate
from tutelage.cli.sweep import sweep
from tutelage.errors import InputError

# The function's name is the command, its docstring the help. Their modules import JAX
# only when called.
COMMANDS = (compare, explore, replicate, simulate, solve, sweep)
EXAMPLES = {
    "compare": ("compare --start random", "compare problem.toml --dim 200 --runs 100"),
    "explore": ("explore --port 8765 --no-browser", "explore --static explorer.html"),
    "replicate": ("replicate", "replicate primer-1 --quick", "replicate --all"),
    "simulate": (
        "simulate --dim 1000000 --times 10 --out runs.nc",
        "simulate problem.toml --plot runs.png",
    ),
    "solve": ("solve --lr 1.5 --plot curve.png", "solve problem.toml --out curve.nc"),
    "sweep": (
        "sweep examples/sweep.toml --out output/sweep",
        "sweep status output/sweep",
    ),
}
SYNONYMS = {  # other names of our options, as in other programs and in papers
    "--lr": ("--learning-rate", "--eta"),
    "--student-units": ("--hidden", "--students"),
    "--teacher-units": ("--teachers",),
    "--outputs": ("--classes",),
    "--noise": ("--sigma",),
    "--dim": ("-N",),
    "--times": ("--t-max", "--end"),
    "--out": ("--output",),
    "--out-dir": ("--folder",),
}
SELDOM = (100_000, 20, 50)  # objects that are made before Python looks for garbage


def build_app() -> App:
    """Return the program with its commands.

    Errors are raised rather than printed, so that `main` reports all of them alike.
    """
    app = App(
        name="tutelage",
        help="The exact learning dynamics of two-layer neural networks.",
        version=__version__,
        exit_on_error=False,
        print_error=False,
        result_action="return_value",
        suppress_keyboard_interrupt=False,
    )
    for command in COMMANDS:
        app.command(command)
    for name, lines in EXAMPLES.items():
        examples = "\n".join(f"- tutelage {line}" for line in lines)
        app[name].help_epilogue = f"Examples\n\n{examples}"
    return app


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (default: that of the process) and return its exit code."""
    if argv is None:
        # looking for garbage takes a third of the time of a short command, and all
        # objects are in use
        gc.set_threshold(*SELDOM)
        atexit.register(gc.freeze)
        argv = sys.argv[1:]
    app = build_app()
    try:
        code = app(list(argv))
        sys.stdout.flush()
        return code or 0
    except UnusedCliTokensError as error:
        tokens = " ".join(error.unused_tokens or ())
        return _report(
            f"unexpected argument {tokens!r}; see '{_command_of(error)} --help'."
        )
    except UnknownOptionError as error:
        return _report(_unknown_option(error))
    except (CycloptsError, InputError) as error:
        return _report(str(error))
    except KeyboardInterrupt as stopped:  # a sweep says what is kept
        message = f"interrupted: {stopped}" if str(stopped) else INTERRUPTED
        print(message, file=sys.stderr)
        return INTERRUPT_CODE
    except BrokenPipeError:  # the reader of our output, such as `head`, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # a full disk, no permission; no part of the file is left
        name = error.filename or "the output"
        return _report(
            f"{name} cannot be written: {error.strerror or error}. "
            "Fix that, or give another place."
        )
    except Exception as error:
        # the errors of NumPy and of XLA
        if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
            return _report(
                "this needs more memory than there is; "
                "use fewer hidden units, levels, points or runs."
            )
        raise


def _command_of(error: CycloptsError) -> str:
    """Return the command that an error is about, as the user types it."""
    return " ".join(["tutelage", *(error.command_chain or ())])


def _unknown_option(error: UnknownOptionError) -> str:
    """Name the right option: a synonym, or the nearest of this command."""
    option = (error.token.keyword or error.token.value).partition("=")[0]
    options = [
        name for argument in error.argument_collection for name in argument.names
    ]
    meant = [name for name in options if option in SYNONYMS.get(name, ())]
    nearest = meant or get_close_matches(option, options, n=1)
    command = _command_of(error)
    hint = f"See {command} --help."
    if nearest:
        hint = f"Did you mean {nearest[0]}?"
    return f"{command} has no option {option}. {hint}"


def _report(message: str) -> int:
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return 2
