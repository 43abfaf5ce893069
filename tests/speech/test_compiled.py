from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from sonorant.speech.torch_graphs import Compiler, keep_compiled


def scaled(x: torch.Tensor, factor: int) -> torch.Tensor:
    return x * factor


@pytest.fixture
def kept(tmp_path: Path, cpp: None) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, torch._inductor.config.patch(compile_threads=1):
        patch.setenv("TORCHINDUCTOR_CACHE_DIR", "")
        keep_compiled(tmp_path / "compiled")
        yield


def test_a_number_that_changes_is_compiled_again_and_counted(kept: None) -> None:
    """Each value requires its own graph."""
    compiler, x = Compiler(), torch.arange(6.0)
    function = compiler(scaled)
    for factor, prepared in ((2, 1), (2, 1), (3, 2), (2, 2)):
        assert function(x, factor).equal(x * factor)
        assert (compiler.prepared, compiler.made) == (prepared, prepared)
    with torch.compiler.set_stance("fail_on_recompile"), pytest.raises(RuntimeError, match="recompile"):
        function(x, 4)


def test_what_another_compiled_is_taken_from_the_folder(kept: None) -> None:
    first, second, x = Compiler(), Compiler(), torch.arange(6.0)
    for compiler in (first, second):
        compiler(scaled)(x, 2)
    assert (first.made, first.taken) == (1, 0)
    assert (second.made, second.taken) == (0, 1)
