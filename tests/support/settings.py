"""The project's settings as plain data, for tests that change some and write a params.yaml of their own."""

from typing import Any

from tasks import params
from tests.support.imports import ROOT


def project_settings() -> dict[str, Any]:
    """Every setting by section, defaults included."""
    return {section: params.effective(section, ROOT / "params.yaml") for section in params.sections()}
