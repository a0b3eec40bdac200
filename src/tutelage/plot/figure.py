"""The figure that every drawing function returns: Matplotlib's own, which a notebook also shows as a picture.

A notebook draws Matplotlib figures only after pyplot has been set up. Our figures live outside pyplot, so they carry their
picture themselves and nothing is set for the whole process.
"""

from io import BytesIO

from matplotlib import figure

from tutelage.plot.style import style


class Figure(figure.Figure):
    """A `matplotlib.figure.Figure` that a notebook shows without any setup."""

    def _repr_png_(self) -> bytes:
        """The picture, by the display protocol of IPython; `%matplotlib inline` replaces it by its own."""
        file = BytesIO()
        with style():
            self.savefig(file, format="png", dpi="figure")
        return file.getvalue()
