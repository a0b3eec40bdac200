"""The figure of a comparison: theory as lines, the runs as bands and marks, z-scores below, one time axis."""

from typing import TYPE_CHECKING, Any

import numpy as np

from tutelage.plot.heads import write_head
from tutelage.plot.panels import FEW, LABELS, Panel, curves_of
from tutelage.plot.scales import is_log_spaced, scale_error, scale_overlaps
from tutelage.plot.style import ALARM, COLOURS, FAINT, INK, stroke, style
from tutelage.plot.words import problem_in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, CURVE_HEIGHT, PANEL_HEIGHT, Z_HEIGHT, TITLE_HEIGHT = 7.4, 2.5, 2.0, 1.5, 1.1
THIN_RUNS = 40  # single runs drawn behind the band
MARKS = 13  # marks of the runs' mean per curve
LIMIT = 4.0
