"""One control plane for all tests that only use it; `tests/conftest.py` keeps them in one process."""

from collections.abc import Iterator

import pytest

from hyperpod_live.control_plane import Client, ControlPlane


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """Return a running control plane that many tests share: each uses names of its own."""
    with ControlPlane() as running:
        yield running


@pytest.fixture
def client(control_plane: ControlPlane) -> Client:
    return control_plane.client()
