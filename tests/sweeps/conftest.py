"""One Dask cluster for the tests that only need one: a scheduler and two workers, processes of their own."""

import pytest

from tests.sweeps.clusters import dask_cluster


@pytest.fixture(scope="session")
def two_workers(tmp_path_factory):
    """The address of the scheduler."""
    with dask_cluster(tmp_path_factory.mktemp("dask")) as cluster:
        yield cluster.address
