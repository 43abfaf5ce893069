from typing import Any

from tasks import params
from tests.support.imports import ROOT


def project_settings() -> dict[str, Any]:
    """Every setting by section, defaults included."""
    return {section: params.effective(section, ROOT / "params.yaml") for section in params.sections()}
