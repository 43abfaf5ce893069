import base64
import dataclasses
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pytest
import soundfile
from mlflow.tracking import MlflowClient

from sonorant.errors import SonorantError
from sonorant.files import write_json
from sonorant.registry import download_bundle, find_version, promote, register
from sonorant.registry.registration import REQUIREMENTS
from sonorant.registry.tracking import open_store
from sonorant.speech.bundle import content_hash, read_bundle, write_bundle
from sonorant.training.initial import read_initial
from tasks.initial import find_initial
from tasks.register import register_files
from tests.registry import planted
from tests.registry.conftest import tags
from tests.registry.planted import CONFIG, GATES, figures, more_errors, of_bundle, write_report
from tests.support.edited import edited


def chosen(bundle: Path, to: Path, speedup: float = 1.61) -> Path:
    """A bundle with variants fp32 and int8 (the same graphs), int8 chosen."""
    description = read_bundle(bundle).description
    files, graphs = [], {}
    for name, graph in description.graphs.items():
        fp32 = graph.variants["fp32"]
        files.append(bundle / fp32.file)
        graphs[name] = dataclasses.replace(graph, variants={"fp32": fp32, "int8": fp32}, default_variant="int8")
    table = [{"candidate": "onnxruntime/fp32", "speedup": 1.0}, {"candidate": "onnxruntime/int8", "speedup": speedup}]
    choice = {"variant": "int8", "runtime": "onnxruntime", "target": "latency", "sentence": "fastest", "table": table}
    write_bundle(to, dataclasses.replace(description, graphs=graphs, choice=choice), files)
    return to


def of_both(int8: np.ndarray, rtf: float = 0.01) -> dict[str, Any]:
    """Figures of fp32, and of int8 with these word errors."""
    both = figures()
    for section, values in figures(int8, "int8", rtf).items():
        both[section] = values if isinstance(values, list) else both[section] | values
    return both


def runs() -> list[Any]:
    store = open_store()
    return list(store.client.search_runs([store.experiment]))


def test_the_same_bundle_is_the_same_version_wherever_it_lies(voice_bundle: Path, project: Path) -> None:
    report = write_report(project / "reports")
    first = register(voice_bundle, figures(), report, CONFIG, {})
    again = register(Path(shutil.copytree(voice_bundle, project / "elsewhere")), figures(), report, CONFIG, {})
    assert (first.version, first.new, again.version, again.new) == (1, True, 1, False)
    second = register(planted.renamed(voice_bundle, project / "second"), figures(), report, CONFIG, {})
    assert (second.version, second.new) == (2, True)
    files = {file.path for file in open_store().client.list_artifacts(first.run_id)}
    assert files >= {"metrics.json", "choice.json", "report"}
    files = {file.path for file in open_store().client.list_artifacts(first.run_id, "report")}
    assert files == {"report/index.html", "report/evaluation"}


def test_the_version_has_the_figures_of_the_variant_that_ships_and_each_variant_a_run(
    voice_bundle: Path, project: Path
) -> None:
    report, both = write_report(project / "reports"), of_both(more_errors(1.0), rtf=0.006)
    origin = {"git_commit": "abc", "dvc_lock": "def", "data": "123"}
    first = figures(more_errors(3.0), "int8")
    assert register(chosen(voice_bundle, project / "first", 1.5), first, report, CONFIG, {}).new
    voice = chosen(voice_bundle, project / "again")
    found = register(voice, both, report, CONFIG, origin)
    assert (found.version, found.new) == (1, False), "measured again, it is the same version"
    heard = both["intelligibility"]["int8"]
    wanted = {"speakers": "anna, ben"}
    wanted |= {"variant": "int8", "runtime": "onnxruntime", "speedup_over_fp32": "1.61", "rtf_1_thread": "0.006"}
    wanted |= {"wer": str(heard["wer"]), "wer_above_recordings": str(heard["above_recordings"]["wer"])}
    assert tags(1).items() >= (origin | wanted).items()
    assert int(tags(1)["variant_bytes"]) == sum(path.stat().st_size for path in voice.glob("*.onnx"))
    by_variant = {run.data.tags.get("variant"): run for run in runs()}
    assert set(by_variant) == {None, "fp32", "int8"}
    assert by_variant[None].data.metrics["intelligibility.wer"] == heard["wer"]
    assert by_variant[None].data.metrics["recordings.wer"] == both["intelligibility"]["recordings"]["wer"]
    for variant in ("fp32", "int8"):
        run = by_variant[variant]
        assert run.data.tags["mlflow.parentRunId"] == found.run_id and run.info.status == "FINISHED"
        assert run.data.tags["shipped"] == str(variant == "int8").lower()
        assert run.data.metrics["intelligibility.wer"] == both["intelligibility"][variant]["wer"]
        assert run.data.metrics["parity.onnxruntime.max_abs_diff.decoder"] == 1e-5
    client = open_store().client
    logged = client.get_model_version("test-voice", "1").source.removeprefix("models:/")
    values = {metric.value for metric in client.get_logged_model(logged).metrics if metric.key == "intelligibility.wer"}
    assert values == {heard["wer"], first["intelligibility"]["int8"]["wer"]}, "of the variant that ships alone"


@pytest.mark.parametrize("figures_of", ["another voice", "no voice"])
def test_figures_of_another_voice_are_refused_by_one_line(voice_bundle: Path, project: Path, figures_of: str) -> None:
    write_json(project / "params.yaml", {"register": dataclasses.asdict(CONFIG)})
    metrics, other = project / "metrics.json", planted.padded(voice_bundle, project / "other", megabytes=0.1)
    given, says = figures(), r"key 'size\.fp32\.sha256' is missing"
    if figures_of == "another voice":
        given, says = of_bundle(voice_bundle, given), rf"{other}: its vocoder \(fp32\) is not the measured one"
    write_json(metrics, given)
    with pytest.raises(SonorantError, match=f"^{metrics}: [^\n]*{says}"):
        register_files(other, metrics, project / "absent", project / "params.yaml", None)
    assert not open_store().client.search_registered_models()
    write_json(metrics, of_bundle(other, figures()))
    assert register_files(other, metrics, project / "absent", project / "params.yaml", None).version == 1


def test_each_variant_has_a_run_of_its_own(voice_bundle: Path, project: Path) -> None:
    both = of_both(more_errors(2.0))
    found = register(chosen(voice_bundle, project / "voice"), both, write_report(project / "reports"), CONFIG, {})
    store = open_store()
    runs = {run.data.tags.get("variant"): run for run in store.client.search_runs([store.experiment])}
    assert set(runs) == {None, "fp32", "int8"}
    for variant in ("fp32", "int8"):
        run = runs[variant]
        assert run.data.tags["mlflow.parentRunId"] == found.run_id and run.info.status == "FINISHED"
        assert run.data.metrics["intelligibility.wer"] == both["intelligibility"][variant]["wer"]
        assert run.data.metrics["speed.onnxruntime.medium.threads_1.rtf"] == 0.01
        assert run.data.metrics["parity.onnxruntime.max_abs_diff.decoder"] == 1e-5
    assert runs["int8"].data.tags["shipped"] == "true" and runs["fp32"].data.tags["shipped"] == "false"
    logged = store.client.get_model_version("test-voice", "1").source.removeprefix("models:/")
    metrics = store.client.get_logged_model(logged).metrics
    shipped = both["intelligibility"]["int8"]["wer"]
    assert [metric.value for metric in metrics if metric.key == "intelligibility.wer"] == [shipped]


def test_registered_voice_speaks_without_torch(voice_bundle: Path, project: Path) -> None:
    report = write_report(project / "reports", variant="int8")
    register(chosen(voice_bundle, project / "voice"), figures(variant="int8"), report, CONFIG, {})
    assert promote("test-voice", GATES).passed
    code = (
        "import sys, json, os, mlflow, pandas\n"
        "mlflow.set_registry_uri(os.environ['MLFLOW_TRACKING_URI'])\n"
        "model = mlflow.pyfunc.load_model('models:/test-voice@champion')\n"
        "rows = {'text': ['One.', 'Two words.'], 'speaker': [None, 'ben'], 'speed': [None, 2.0]}\n"
        "out = model.predict(pandas.DataFrame(rows))\n"
        "assert 'torch' not in sys.modules\n"
        "assert list(out) == model.metadata.get_output_schema().input_names()\n"
        "print(out.to_json(orient='records'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=project, check=False)
    assert done.returncode == 0, done.stderr
    [file] = project.glob("mlartifacts/**/requirements.txt")
    packages = [line.split("==") for line in file.read_text().split()]
    assert {name for name, _ in packages} == set(REQUIREMENTS) and all(exact for _, exact in packages)
    for row in json.loads(done.stdout.splitlines()[-1]):
        samples, rate = soundfile.read(io.BytesIO(base64.b64decode(row["audio"])))
        assert rate == row["sample_rate"] and len(samples) / rate == pytest.approx(row["seconds"]) and len(samples) > 0


def test_bundle_comes_back_from_the_registry(voice_bundle: Path, project: Path) -> None:
    register(voice_bundle, figures(), project / "absent", CONFIG, {})
    downloaded = download_bundle("models:/test-voice@challenger", project / "got")
    assert content_hash(read_bundle(downloaded)) == content_hash(read_bundle(voice_bundle))
    assert not list((project / "got").rglob("weights.pt")), "whoever speaks does not download what training needs"
    with pytest.raises(SonorantError, match="champion"):
        download_bundle("models:/test-voice@champion", project / "got")


def test_a_registered_voice_can_be_fine_tuned_elsewhere(
    voice_bundle: Path, trained: tuple[Path, Path], project: Path
) -> None:
    folders = dict(zip(("acoustic", "vocoder"), trained, strict=True))
    other = Path(shutil.copytree(folders["acoustic"], project / "other"))
    with edited(other / "model.json") as description:
        description["provenance"] = {"steps": 1}
    nowhere = project / "nowhere"
    of_another = register(voice_bundle, figures(), nowhere, CONFIG, {}, trained=folders | {"acoustic": other})
    assert of_another.says() == "models:/test-voice/1: registered; cannot be fine-tuned: no trained acoustic"
    with pytest.raises(SonorantError, match="registered without the trained acoustic model"):
        find_initial("models:/test-voice/1", "acoustic", nowhere, nowhere)
    assert register(voice_bundle, figures(), nowhere, CONFIG, {}, trained=folders).without == ()
    for kind, folder in folders.items():
        found = find_initial("models:/test-voice@challenger", kind, nowhere, nowhere)
        assert found.content() == read_initial(folder, kind).content()
        assert found.source == "models:/test-voice@challenger"
    for named in ("models:/test-voice@nobody", "models:/nothing/1", "models:/test-voice"):
        with pytest.raises(SonorantError, match=named) as refused:
            find_initial(named, "acoustic", nowhere, nowhere)
        assert "\n" not in str(refused.value)


def test_a_bundle_is_found_among_the_versions_also_where_a_newer_one_is_there(
    two: Path, project: Path, voice_bundle: Path
) -> None:
    assert find_version(voice_bundle, CONFIG.model) == 1
    second = planted.renamed(voice_bundle, project / "second")
    assert find_version(second, CONFIG.model) == 2
    third = planted.renamed(voice_bundle, project / "third")
    with pytest.raises(SonorantError, match="third: not registered as a version of models:/test-voice"):
        find_version(third, CONFIG.model)
    with pytest.raises(SonorantError, match="not registered as a version of models:/nothing"):
        find_version(second, "nothing")


def test_a_damaged_bundle_registers_nothing(voice_bundle: Path, project: Path) -> None:
    broken = Path(shutil.copytree(voice_bundle, project / "broken"))
    file = broken / read_bundle(broken).description.graphs["vocoder"].variants["fp32"].file
    file.write_bytes(b"")
    with pytest.raises(SonorantError, match=file.name):
        register(broken, figures(), project / "absent", CONFIG, {})
    assert not open_store().client.search_registered_models()


def test_a_bundle_that_changes_while_it_is_sent_is_registered_as_it_was(
    voice_bundle: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle, real = Path(shutil.copytree(voice_bundle, project / "voice")), mlflow.pyfunc.log_model

    def after_a_change(**given: Any) -> Any:
        shutil.copytree(planted.padded(voice_bundle, project / "other", 0.1), bundle, dirs_exist_ok=True)
        return real(**given)

    monkeypatch.setattr(mlflow.pyfunc, "log_model", after_a_change)
    register(bundle, figures(), project / "absent", CONFIG, {})
    downloaded = download_bundle("models:/test-voice/1", project / "got")
    assert content_hash(read_bundle(downloaded)) == content_hash(read_bundle(voice_bundle))


def test_a_model_whose_upload_was_cut_off_is_sent_when_it_is_registered_again(
    voice_bundle: Path, trained: tuple[Path, Path], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders, send = dict(zip(("acoustic", "vocoder"), trained, strict=True)), MlflowClient.log_artifact

    def cut_off(client: MlflowClient, run_id: str, file: str, folder: str | None = None) -> None:
        if file.endswith("model.json"):
            raise ConnectionError("cut off")
        send(client, run_id, file, folder)

    monkeypatch.setattr(MlflowClient, "log_artifact", cut_off)
    with pytest.raises(Exception, match="cut off"):
        register(voice_bundle, figures(), project / "nowhere", CONFIG, {}, trained=folders)
    monkeypatch.setattr(MlflowClient, "log_artifact", send)
    register(voice_bundle, figures(), project / "nowhere", CONFIG, {}, trained=folders)
    for kind in folders:
        assert find_initial("models:/test-voice/1", kind, project / "nowhere", project / "nowhere")
