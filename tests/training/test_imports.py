import subprocess
import sys

from tests.support.imports import ROOT

CODE = """
import sys
ELSE = {"tqdm", "scipy", "gruut", "mlflow", "psutil", "prefect", "dvc", "soxr", "yaml", "pydantic", "matplotlib",
        "onnx", "onnxruntime", "numba"}
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ELSE:
            raise ImportError(name)
sys.meta_path.insert(0, Refuse())
import sonorant.families.parallel.acoustic_training, sonorant.training.waveform
import sonorant.training.distributed.launch, sonorant.training.worker
"""


def test_training_imports_nothing_of_the_pipeline() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
