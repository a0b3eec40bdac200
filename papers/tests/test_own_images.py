"""Figures on real images take a reader's file: saved digits give the same numbers."""

import numpy as np
import xarray as xr

import tutelage as tu
from tutelage_papers import replicas


def test_a_file_of_images_gives_the_same_numbers(tmp_path):
    name = str(tmp_path / "images.npy")
    np.save(name, tu.digits().astype(np.uint8))
    figure = replicas()["power-14"]
    own = figure.compute(**dict(figure.quick) | {"images": name})
    xr.testing.assert_allclose(own, figure.compute(**figure.quick))
    figure = replicas()["power-3"]
    short = {
        "starts": 2,
        "end": 2.0,
        "settle": 2.0,
        "image_starts": 2,
        "image_end": 2.0,
        "points": 3,
    }
    short = dict(figure.quick) | short | {"trained": [50], "image_trained": [10]}
    xr.testing.assert_allclose(
        figure.compute(**short | {"images": name}), figure.compute(**short)
    )
