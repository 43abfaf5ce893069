import pytest

pytest.importorskip("schemathesis")

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error

from tests.support.serving import Running

pytestmark = pytest.mark.long

EXAMPLES = 25
"""Per route and kind of request."""
FUZZED = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=lambda mode: mode.value)
def test_no_request_finds_a_fault(server: Running, mode: GenerationMode) -> None:
    schema = schemathesis.openapi.from_url(f"{server.url}openapi.json")
    asked = set()
    for found in schema.get_all_operations():
        operation = found.ok()

        @FUZZED
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: schemathesis.Case) -> None:
            case.call_and_validate(checks=[not_a_server_error])
            asked.add(case.path)

        if (
            mode is GenerationMode.POSITIVE or operation.method.upper() == "POST"
        ):  # unrestricted text has no invalid value
            ask()
    assert {"/v1/audio/speech", "/v1/speech"} <= asked
