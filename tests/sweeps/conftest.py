"""One Dask cluster for the tests that only need one:

a scheduler and two workers, processes of their own.
"""

import pytest

from tests.sweeps.clusters import dask_cluster


@pytest.fixture(scope="package")
def two_workers(tmp_path_factory):
    """The address of the scheduler.

    It ends with the tests of sweeps, for idle workers take a tenth of a core.
    """
    with dask_cluster(tmp_path_factory.mktemp("dask")) as cluster:
        yield cluster.address
