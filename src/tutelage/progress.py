"""A progress bar for long solves: diffrax's own meter, on stderr, silent for the first two seconds."""

import time
from typing import Any

import diffrax

SILENT_SECONDS = 2.0


class ProgressBar(diffrax.TqdmProgressMeter):
    """Appears only when a solve takes longer than two seconds."""

    @staticmethod
    def _init_bar() -> Any:
        from tqdm.auto import tqdm

        layout = "{desc}: {percentage:3.0f}% |{bar}| [{elapsed}<{remaining}]"
        return tqdm(total=100, desc="solving", bar_format=layout, delay=SILENT_SECONDS, leave=False)

    @staticmethod
    def _step_bar(bar: Any, progress: Any) -> None:
        bar.n = round(100 * float(progress), 2)
        if time.time() - bar.start_t > SILENT_SECONDS:
            bar.refresh()

    @staticmethod
    def _close_bar(bar: Any) -> None:
        bar.close()
