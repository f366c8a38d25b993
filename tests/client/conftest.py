import pytest


@pytest.fixture(params=["blocking", "asyncio"])
def kind(request):
    """Which of the two clients a test uses."""
    return str(request.param)
