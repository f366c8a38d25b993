import pytest

from support.cloud import running_cloud


@pytest.fixture
async def cloud():
    """A receiver in front of a real CouchDB."""
    async with running_cloud() as running:
        yield running
