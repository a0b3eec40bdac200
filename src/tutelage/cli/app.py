"""The program `tutelage`: finds the command, and turns every ending into an exit code and at most one sentence.

0: there is an answer (a divergence is one). 1: the solver gave up before the end, or a claim of a figure fails. 2: bad
input or a file that cannot be written; no part of it is left. 130: interrupted. To add a command, write its module and add
its function to `COMMANDS`.
"""

import atexit
import gc
import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError
from cyclopts.exceptions import UnusedCliTokensError

from tutelage._errors import InputError
from tutelage._version import __version__
from tutelage.cli import interrupt
from tutelage.cli.compare import compare
from tutelage.cli.explore import explore
from tutelage.cli.replicate import replicate
from tutelage.cli.simulate import simulate
from tutelage.cli.solve import solve
from tutelage.cli.sweep import sweep

# The function's name is the command, its docstring the help. Their modules import JAX only when called.
COMMANDS = (compare, explore, replicate, simulate, solve, sweep)
SELDOM = (100_000, 20, 50)  # objects that are made before Python looks for waste


def build_app() -> App:
    """The commands; errors are raised rather than printed, so that `main` speaks for all of them."""
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
    return app


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (default: that of the process) and return its exit code."""
    if argv is None:
        _start_and_end_quickly()
    try:
        code = build_app()(sys.argv[1:] if argv is None else list(argv))
        sys.stdout.flush()
        return code or 0
    except UnusedCliTokensError as error:
        return _refuse(f"there is nothing to do with {' '.join(error.unused_tokens or ())!r}; see --help.")
    except (CycloptsError, InputError) as error:
        return _refuse(str(error))
    except KeyboardInterrupt:
        print(interrupt.SENTENCE, file=sys.stderr)
        return interrupt.EXIT_CODE
    except BrokenPipeError:  # the reader of our output, such as `head`, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # a full disk, no permission; no part of the file is left
        name = error.filename or "the output"
        return _refuse(f"{name} cannot be written: {error.strerror or error}. Fix that, or give another place.")
    except Exception as error:
        if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):  # of NumPy, of XLA
            return _refuse("this needs more memory than there is; use fewer hidden units, levels, points or runs.")
        raise


def _start_and_end_quickly() -> None:
    """Look for waste seldom, and not at the end: it is a third of the time of a short command, and all of it is in use."""
    gc.set_threshold(*SELDOM)
    atexit.register(gc.freeze)


def _refuse(sentence: str) -> int:
    print(f"error: {' '.join(sentence.split())}", file=sys.stderr)
    return 2
