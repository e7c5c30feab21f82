"""Programs lie where the unprivileged user, as whom root's tools run, can read them."""

import pytest
from scratch import open_directory


@pytest.fixture
def tmp_path():
    with open_directory() as folder:
        yield folder
