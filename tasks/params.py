"""params.yaml as typed settings. An unknown key, a wrong type or a contradiction is an error of one line."""

from pathlib import Path
from typing import Any, TypeVar

import yaml

from sonorant.errors import SonorantError
from sonorant.files import did_you_mean, parse_checked
from sonorant.plugins import all_kinds

PARAMS = Path("params.yaml")
SECTIONS = (
    "voice", "corpus", "text", "prepare", "audit", "condition", "features", "store", "audio", "decoding", "data",
    "machine", "quantize", "export", "verify", "recognizer", "evaluate", "choose", "engine", "report",
    "register", "promote",
)  # fmt: skip
"""Those that no family brings."""

Config = TypeVar("Config")


def sections() -> list[str]:
    """Every section there may be: `SECTIONS`, and for each kind of model its sizes and its training."""
    return [*SECTIONS, *(section for kind in all_kinds() for section in (kind, f"train_{kind}"))]


def load(section: str, config: type[Config], path: Path = PARAMS) -> Config:
    """Return one section of params.yaml as the dataclass that owns it. Raises SonorantError naming file and key."""
    values = read(path).get(section)
    if not isinstance(values, dict):
        raise SonorantError(f"{path}: section '{section}' is missing or not a mapping")
    return parse_checked(values, config, path, key=section)


def read(path: Path = PARAMS) -> dict[str, Any]:
    """Return params.yaml as plain data, its section names checked."""
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SonorantError(f"{path}: no such file; run from the folder that holds params.yaml") from None
    except yaml.YAMLError as error:
        raise SonorantError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(data, dict):
        raise SonorantError(f"{path}: must hold sections: {', '.join(sections())}")
    for section in data:
        if section not in SECTIONS and section not in (known := sections()):
            raise SonorantError(f"{path}: unknown section '{section}'{did_you_mean(str(section), known)}")
    return data
