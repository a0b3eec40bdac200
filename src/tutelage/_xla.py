"""XLA's flags, as far as nobody has given others: XLA reads them from the environment when it first compiles.

On a CPU, XLA runs a loop as a queue of kernels, unless it holds less than a kilobyte: then as one. Some units with few
levels take microseconds a turn, most of them in that queue, so the limit is raised to 64 kB when the package is imported:
K = M = 3 reaches alpha = 100 in 2.5 ms, not 3.5, compiled sooner. Every XLA knows this flag; TUTELAGE_XLA=0 forbids it.

XLA's newer emitters of fused loops compile for 40% longer than the older ones and gain nothing here: commands go without.
A flag that XLA does not know ends the process, also one that inherits it, so a library does not set this one.
"""

import os

WHOLE_LOOPS = "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=65536"
OLDER_EMITTERS = "--xla_cpu_use_fusion_emitters=false"
UNOPTIMIZED = "--xla_backend_optimization_level=0"
KNOWN_TO = "0.10."  # jaxlib 0.11 has only the newer emitters


def run_small_loops_whole() -> None:
    """For everybody: a small loop is one kernel."""
    _set_flags(WHOLE_LOOPS)


def compile_sooner() -> None:
    """For commands: by the older emitters, too."""
    if _older_emitters_exist():
        _set_flags(WHOLE_LOOPS, OLDER_EMITTERS)


def compile_quickly() -> None:
    """For little work: without LLVM's optimizations, too, in less than half the time, with the same numbers to rounding."""
    if _older_emitters_exist():
        _set_flags(WHOLE_LOOPS, OLDER_EMITTERS, UNOPTIMIZED)


def _older_emitters_exist() -> bool:
    from importlib.metadata import version  # here, for it takes a tenth of the time of `tutelage --help`

    return version("jaxlib").startswith(KNOWN_TO)


def _set_flags(*flags: str) -> None:
    given = os.environ.get("XLA_FLAGS", "").split()
    ours = (WHOLE_LOOPS, OLDER_EMITTERS, UNOPTIMIZED)
    if os.environ.get("TUTELAGE_XLA", "1") != "0" and all(flag in ours for flag in given):
        os.environ["XLA_FLAGS"] = " ".join(dict.fromkeys((*given, *flags)))
