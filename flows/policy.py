"""What is retried, and how often.

Stages are not: the same input fails the same way, and a trainer resumes from its checkpoint when a person asks. Actions
talk to servers, so a missing answer is asked for again; a refusal is not.
"""

from __future__ import annotations

from typing import Any

from prefect.cache_policies import NO_CACHE


def worth_retrying(task: Any, run: Any, state: Any) -> bool:
    """Whether the failure may be temporary: an exception may; bad input is a state without one."""
    return isinstance(state.data, Exception)


# DVC alone decides what is up to date; Prefect's own cache would not see deleted outputs.
STAGE: dict[str, Any] = {"cache_policy": NO_CACHE, "retries": 0}
ACTION: dict[str, Any] = {
    "cache_policy": NO_CACHE,
    "retries": 2,
    "retry_delay_seconds": [5, 30],
    "retry_condition_fn": worth_retrying,
}
