import pytest

from sonorant.text import Frontend, load_frontend


@pytest.fixture(scope="session")
def frontend() -> Frontend:
    return load_frontend("gruut", "en-us")
