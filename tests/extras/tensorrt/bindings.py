"""Type stubs of TensorRT and cuda-bindings, from their wheels: `python -m tests.extras.tensorrt.bindings`.

The bindings load here without TensorRT's libraries, which are gigabytes, by three empty libraries with the linked
functions. Stubs keep names and signatures of `CLASSES`.
"""

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

STUBS = Path(__file__).parent / "stubs"
TENSORRT = {"10": "tensorrt-cu12-bindings==10.16.1.11", "11": "tensorrt-cu13-bindings==11.4.0.106"}
CUDA = {"10": "cuda-bindings==12.9.4", "11": "cuda-bindings==13.5.0"}
"""Wheels by TensorRT's major version."""

HEADER = """\
# From {wheels} by tests/extras/tensorrt/bindings.py: names and signatures.
# mypy: disable-error-code="overload-cannot-match"
from typing import Any, ClassVar, overload

"""

CLASSES = (
    "Builder", "BuilderFlag", "DataType", "Dims", "ExecutionContextAllocationStrategy", "HardwareCompatibilityLevel",
    "IBuilderConfig", "ICudaEngine", "IExecutionContext", "IHostMemory", "ILogger", "INetworkDefinition",
    "IOptimizationProfile", "IProgressMonitor", "ITimingCache", "MemoryPoolType", "NetworkDefinitionCreationFlag",
    "OnnxParser", "ParserError", "Runtime", "TensorIOMode",
)  # fmt: skip
CUDA_NAMES = (
    "cudaDeviceProp", "cudaError_t", "cudaFree", "cudaGetDevice", "cudaGetDeviceCount", "cudaGetDeviceProperties",
    "cudaGetErrorString", "cudaGraphDestroy", "cudaGraphExecDestroy", "cudaGraphInstantiate", "cudaGraphLaunch",
    "cudaMalloc", "cudaMemcpyAsync", "cudaMemcpyKind", "cudaStreamBeginCapture", "cudaStreamCaptureMode",
    "cudaStreamCreateWithFlags", "cudaStreamDestroy", "cudaStreamEndCapture", "cudaStreamNonBlocking",
    "cudaStreamSynchronize",
)  # fmt: skip
_LIBRARIES = {
    "nvinfer": (
        "createInferBuilder_INTERNAL", "createInferRefitter_INTERNAL", "createInferRuntime_INTERNAL",
        "getPluginRegistry", "getBuilderPluginRegistry",
    ),
    "nvinfer_plugin": ("initLibNvInferPlugins",),
    "nvonnxparser": ("createNvOnnxParser_INTERNAL", "createNvOnnxParserRefitter_INTERNAL", "getNvOnnxParserVersion"),
}  # fmt: skip
"""Functions of TensorRT's libraries that the bindings link to."""


def main() -> None:
    for major in TENSORRT:
        with tempfile.TemporaryDirectory() as folder:
            for file, text in stubs(major, *unpack(major, Path(folder))).items():
                path = STUBS / major / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
                print(path)


def unpack(major: str, folder: Path) -> tuple[Path, Path]:
    """Unpack a version's wheels into `folder`; return the importable folders of TensorRT's and CUDA's bindings.

    Raises subprocess.SubprocessError without the wheels or a C compiler.
    """
    tensorrt = _unpacked([TENSORRT[major]], folder / "tensorrt")
    _add_libraries(tensorrt / "tensorrt_bindings", major)
    return tensorrt, _unpacked([CUDA[major], "cuda-pathfinder"], folder / "cuda")


def stubs(major: str, tensorrt: Path, cuda: Path) -> dict[str, str]:
    header = HEADER.format(wheels=f"{TENSORRT[major]} and {CUDA[major]}")
    return {
        "tensorrt/__init__.pyi": header + _asked(tensorrt, "tensorrt_stub"),
        "cuda/__init__.pyi": "",
        "cuda/bindings/__init__.pyi": "",
        "cuda/bindings/runtime.pyi": header + _asked(cuda, "cuda_stub"),
    }


def _unpacked(packages: list[str], folder: Path) -> Path:
    wheels = folder.with_suffix(".wheels")
    download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", str(wheels)]
    subprocess.run([*download, *packages], check=True, capture_output=True, timeout=120)
    for wheel in wheels.glob("*.whl"):
        zipfile.ZipFile(wheel).extractall(folder)
    return folder


def _add_libraries(folder: Path, major: str) -> None:
    for library, functions in _LIBRARIES.items():
        source = folder / f"{library}.c"
        source.write_text("".join(f"void *{function}(void) {{ return 0; }}\n" for function in functions))
        name = f"lib{library}.so.{major}"
        command = ["cc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", folder / name, source]
        subprocess.run(command, check=True, capture_output=True)


def _asked(packages: Path, function: str) -> str:
    """Output of a function of this module in a process with the unpacked packages."""
    find = f"import sys; sys.path.insert(0, {str(packages)!r})"
    code = f"{find}; from tests.extras.tensorrt import bindings; print(bindings.{function}())"
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60).stdout


def tensorrt_stub() -> str:
    import tensorrt_bindings as trt

    lines = ["__version__: str", "def nptype(trt_type: DataType) -> type: ...", ""]
    assert callable(trt.nptype)
    for name in CLASSES:
        lines += [*_class(getattr(trt, name), name), ""]
    return "\n".join(lines)


def _class(bound: type, name: str) -> list[str]:
    body = []
    for member in sorted(vars(bound)):
        value = vars(bound)[member]
        if isinstance(value, property) and not member.startswith("_"):
            body += _property(member, value)
        elif isinstance(value, type) and not member.startswith("_"):
            body += _class(value, member)
        elif callable(value) and (not member.startswith("_") or member == "__init__"):
            body += _method(member, value.__doc__ or "")
        elif not callable(value) and not member.startswith("_"):
            body.append(f"{member}: ClassVar[{type(value).__name__ if type(value).__name__ in CLASSES else 'Any'}]")
    if hasattr(bound, "__members__"):
        body.append("def __int__(self) -> int: ...")
    if name == "IHostMemory":  # the buffer protocol is hidden in Python 3.11
        body.append("def __buffer__(self, flags: int, /) -> memoryview: ...")
    base = "(tuple[int, ...])" if name == "Dims" else ""
    return [f"class {name}{base}:", *(f"    {line}" for line in body or ["..."])]


def _property(name: str, value: property) -> list[str]:
    kind = _type((value.fget.__doc__ or "").rpartition("-> ")[2])
    return [f"{name}: {kind}"] if value.fset else ["@property", f"def {name}(self) -> {kind}: ..."]


def _method(name: str, doc: str) -> list[str]:
    signatures = re.findall(rf"^(?:\d+\. )?{name}\((.*)\) -> (.+)$", doc, flags=re.MULTILINE)
    signatures = [found for found in signatures if found[0] != "*args, **kwargs"]
    overload = ["@overload"] if len(signatures) > 1 else []
    lines = []
    for parameters, result in signatures:
        lines += [*overload, f"def {name}({', '.join(_parameters(parameters))}) -> {_type(result)}: ..."]
    return lines


def _parameters(text: str) -> list[str]:
    """Parameters of a signature; C++ allows required ones after optional ones, which makes all required."""
    parts = [_parameter(part) for part in re.split(r", (?![^\[<(]*[\]>)])", text)]
    last = max((place for place, part in enumerate(parts) if not part.endswith("= ...")), default=-1)
    return [part.removesuffix(" = ...") if place < last else part for place, part in enumerate(parts)]


def _parameter(text: str) -> str:
    name, _, rest = text.partition(": ")
    kind, _, default = rest.partition(" = ")
    return name if name == "self" else f"{name}: {_type(kind)}" + (" = ..." if default else "")


def _type(text: str) -> str:
    """pybind11's type in Python; Any outside `CLASSES`."""
    text = text.strip().removeprefix("tensorrt_bindings.tensorrt.").replace("nvonnxparser::IParserError", "ParserError")
    if text == "Dims":
        return "tuple[int, ...]"
    if text.split(".")[0] in CLASSES or text in ("str", "int", "bool", "None", "float"):
        return text
    known = {"typing.SupportsInt": "int", "typing.SupportsFloat": "float", "typing_extensions.Buffer": "bytes"}
    return (known | {"tuple": "tuple[int, ...]"}).get(text, "Any")


def cuda_stub() -> str:
    from cuda.bindings import runtime

    lines = []
    for name in CUDA_NAMES:
        value = getattr(runtime, name)
        if hasattr(value, "__members__"):
            lines += [f"class {name}:", *(f"    {member}: ClassVar[Any]" for member in value.__members__)]
        elif isinstance(value, type):
            lines += [f"class {name}:", *(f"    {member}: Any" for member in dir(value) if not member.startswith("_"))]
        elif callable(value):
            (signature,) = re.findall(rf"^{name}\((.*)\)", value.__doc__ or "")[:1]
            names = [part.split(":")[0].split()[-1] for part in signature.split(", ") if part]
            lines.append(f"def {name}({', '.join(f'{one}: Any' for one in names)}) -> tuple[Any, ...]: ...")
        else:
            lines.append(f"{name}: int")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
