"""params.yaml as typed settings. Settings missing from the file take the defaults of the section's dataclass.

python -m tasks.params                  print every setting: default, value, meaning
python -m tasks.params train_acoustic   print one section
"""

import argparse
import ast
import dataclasses
import inspect
import json
import re
import textwrap
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import yaml

from sonorant import plugins
from sonorant.errors import SonorantError
from sonorant.files import did_you_mean, parse_checked

PARAMS = Path("params.yaml")
OWNERS = {
    "voice": "sonorant.families.family:VoiceConfig",
    "corpus": "sonorant.corpus.importers:CorpusConfig",
    "text": "sonorant.text:TextConfig",
    "prepare": "sonorant.corpus.preparation:PrepareConfig",
    "condition": "sonorant.audio.conditioning:ConditionConfig",
    "audit": "sonorant.corpus.audit.audit:AuditConfig",
    "features": "sonorant.corpus.short_clips:FeaturesConfig",
    "store": "sonorant.features.store:StoreConfig",
    "audio": "sonorant.audio.mel:MelConfig",
    "training": "sonorant.training.config:TrainConfig",
    "data": "sonorant.training.config:DataConfig",
    "machine": "sonorant.training.config:MachineConfig",
    "decoding": "sonorant.speech.decoding:DecodingConfig",
    "quantize": "sonorant.export.quantization.quantize:QuantizeConfig",
    "export": "sonorant.export.onnx_graph:ExportConfig",
    "verify": "sonorant.export.tolerance:VerifyConfig",
    "recognizer": "sonorant.audio.recognizers:RecognizerConfig",
    "evaluate": "sonorant.evaluation.evaluation:EvaluateConfig",
    "choose": "sonorant.export.choice:ChooseConfig",
    "report": "sonorant.evaluation.report.report_page:ReportConfig",
    "register": "sonorant.registry:RegisterConfig",
    "promote": "sonorant.registry:PromoteConfig",
}
"""Dataclass of each core section. Families and plug-ins add others."""
SHARED = "training"
"""Section for all training runs; a section `train_<kind>` overrides it."""

Config = TypeVar("Config")


EXPONENT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$")
"""A number such as 1e-5, which DVC writes and YAML 1.1 reads as text."""


class Loader(yaml.SafeLoader):
    """YAML 1.1, which also reads `EXPONENT` as a number."""


Loader.add_implicit_resolver("tag:yaml.org,2002:float", EXPONENT, [*"-+.0123456789"])


def sections() -> list[str]:
    kinds = [section for kind in plugins.all_kinds() for section in (kind, f"train_{kind}")]
    return [*OWNERS, *plugins.added("settings"), *kinds]


def owner(section: str) -> type:
    """Return a section's dataclass; a kind of model has sections `<kind>` (sizes) and `train_<kind>`."""
    places = OWNERS | plugins.added("settings")
    if section in places:
        return plugins.load(places[section])
    kind = plugins.model_kind(section.removeprefix("train_"))
    return kind.settings() if section.startswith("train_") else kind.sizes()


def load(section: str, config: type[Config], path: Path = PARAMS) -> Config:
    """Load one section as its dataclass. Raises SonorantError naming file and key."""
    values = given(section, path)
    for field in dataclasses.fields(config):  # type: ignore[arg-type]  # is a dataclass
        if isinstance(values.get(field.name), dict) and field.default_factory is not dataclasses.MISSING:
            values[field.name] = _over(field.default_factory(), values[field.name])
    return parse_checked(values, config, path, key=section)


def _over(default: Any, value: Any) -> Any:
    """Return `value`. If it is a mapping, missing keys are taken from the default."""
    if dataclasses.is_dataclass(default) and not isinstance(default, type):
        default = dataclasses.asdict(default)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    if not isinstance(default, dict) or not isinstance(value, dict):
        return value
    return {key: _over(default.get(key), value.get(key, default.get(key))) for key in {**default, **value}}


def given(section: str, path: Path = PARAMS) -> dict[str, Any]:
    """Return the settings that the file sets in a section; for `train_<kind>`, also those in `training`."""
    settings = read(path)
    for name in (section, SHARED):
        if not isinstance(settings.get(name) or {}, dict):
            raise SonorantError(f"{path}: section '{name}' is not a mapping; write each setting as `name: value`")
    shared = settings.get(SHARED) or {} if section.startswith("train_") else {}
    return {**shared, **(settings.get(section) or {})}


def effective(section: str, path: Path = PARAMS) -> dict[str, Any]:
    """Return every setting of a section as plain data, including defaults."""
    values: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(load(section, owner(section), path))))
    return values


def read(path: Path = PARAMS) -> dict[str, Any]:
    """Read the file as plain data and check its section names."""
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), Loader)
    except FileNotFoundError:
        raise SonorantError(f"{path}: no such file; run this command in the folder with params.yaml") from None
    except yaml.YAMLError as error:
        raise SonorantError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(data, dict):
        raise SonorantError(f"{path}: is not a mapping of sections; write sections such as: {', '.join(sections())}")
    for section in data:
        if section not in OWNERS and section not in (known := sections()):
            raise SonorantError(f"{path}: unknown section '{section}'{did_you_mean(str(section), known)}")
    return data


def meanings(config: type) -> dict[str, str]:
    """Return the docstring of each field of a dataclass, on one line."""
    found: dict[str, str] = {}
    for base in filter(dataclasses.is_dataclass, reversed(config.__mro__)):
        [definition] = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(definition, ast.ClassDef)
        for field, text in pairwise(definition.body):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                found[ast.unparse(field.target)] = " ".join(str(text.value.value).split())
    return found


def table(section: str, path: Path = PARAMS) -> list[dict[str, Any]]:
    """Return `setting`, `default`, `value`, `set` (whether the file sets it) and `meaning` of each setting."""
    config = owner(section)
    values, words, here = effective(section, path), meanings(config), given(section, path)
    defaults = json.loads(json.dumps(dataclasses.asdict(config())))
    return [
        {
            "setting": f"{section}.{name}",
            "default": defaults[name],
            "value": value,
            "set": name in here,
            "meaning": words.get(name, ""),
        }
        for name, value in values.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="sonorant params",
        description="Print every setting of params.yaml with its default, its value, and its meaning.",
        epilog="example: sonorant params train_acoustic",
    )
    parser.add_argument("section", nargs="*", metavar="SECTION", help="sections to print (default: all)")
    parser.add_argument("--params", type=Path, default=PARAMS, metavar="FILE", help="settings (default: params.yaml)")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    arguments = parser.parse_args()
    for section in arguments.section or sections():
        if section not in sections():
            raise SonorantError(f"unknown section '{section}'{did_you_mean(section, sections())}")
        for row in table(section, arguments.params):
            if arguments.json:
                print(json.dumps(row))
                continue
            mine = f" (default {_yaml(row['default'])})" if row["value"] != row["default"] else ""
            print(f"{row['setting']}: {_yaml(row['value'])}{mine}\n    {row['meaning']}")


def _yaml(value: Any) -> str:
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10**6, sort_keys=False)
    return text.removesuffix("...\n").strip()


if __name__ == "__main__":
    from tasks.stage import run  # tasks.stage imports this module

    run(main)
