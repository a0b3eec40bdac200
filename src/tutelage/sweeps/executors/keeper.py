"""Dask's program that looks after workers, ended with its parent: by itself it would wait for the scheduler for ever."""

import os
import sys
import threading


def keep(descriptor: int, arguments: list[str]) -> None:
    """`dask worker` with these arguments, until it is told to end or the other end of the pipe is closed."""
    threading.Thread(target=_leave_with_parent, args=(descriptor,), daemon=True).start()
    from distributed.cli.dask_worker import main

    main(arguments)


def _leave_with_parent(descriptor: int) -> None:
    """Nobody writes into the pipe; its workers see our end as we see our parent's."""
    os.read(descriptor, 1)
    os._exit(1)


if __name__ == "__main__":
    keep(int(sys.argv[1]), sys.argv[2:])
