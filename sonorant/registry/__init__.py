"""Register voices in the MLflow model registry and promote one to champion."""

from sonorant.registry.aliases import RolledBack, rollback
from sonorant.registry.download import download_bundle
from sonorant.registry.figures import check_judged
from sonorant.registry.gates import Gate
from sonorant.registry.limits import PromoteConfig
from sonorant.registry.promotion import Verdict, promote
from sonorant.registry.registration import RegisterConfig, Registered, find_version, register

__all__ = [
    "Gate",
    "PromoteConfig",
    "RegisterConfig",
    "Registered",
    "RolledBack",
    "Verdict",
    "check_judged",
    "download_bundle",
    "find_version",
    "promote",
    "register",
    "rollback",
]
