"""Schemathesis asks what the description of the interface allows, and what it does not: no answer is a fault."""

import pytest

pytest.importorskip("schemathesis")

import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error

from tests.support.serving import Running

pytestmark = pytest.mark.long


@pytest.fixture
def schema(server: Running) -> schemathesis.BaseSchema:
    return schemathesis.openapi.from_url(f"{server.url}openapi.json")


described = schemathesis.pytest.from_fixture("schema")


@described.parametrize()
@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_no_request_finds_a_fault(case: schemathesis.Case) -> None:
    case.call_and_validate(checks=[not_a_server_error])
