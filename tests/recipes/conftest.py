import pytest

from support.recipes import Chamber


@pytest.fixture
def chamber():
    return Chamber()


@pytest.fixture
async def on(chamber):
    """The chamber, with its runner running."""
    async with chamber.on():
        yield chamber
