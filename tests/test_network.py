import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from flows.own_prefect import use_own_prefect
from sonorant.errors import SonorantError
from sonorant.extras.elsewhere.browser_runtime import _fetch
from sonorant.features.store.place import open_store
from sonorant.network import LOOPBACK


@pytest.mark.parametrize(
    "reach", [lambda: open_store("s3://bucket/store"), use_own_prefect, lambda: _fetch(Path("nowhere"))]
)
def test_a_proxy_that_is_gone_is_named(reach: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("PREFECT_API_URL", "http://prefect.example:4200/api")
    monkeypatch.setattr("shutil.which", lambda name: name)
    with pytest.raises(SonorantError, match=r"HTTPS?_PROXY: no proxy answers at 127.0.0.1 \(Connection refused\)"):
        reach()


@pytest.mark.parametrize(("given", "then"), [("", LOOPBACK), ("example.org", f"example.org,{LOOPBACK}")])
def test_loopback_goes_past_a_proxy(given: str, then: str) -> None:
    code = "import os, sonorant, sonorant.network as n; n.spare_loopback(); print(os.environ['NO_PROXY'])"
    environment = os.environ | {"NO_PROXY": given, "no_proxy": ""}
    assert subprocess.check_output([sys.executable, "-c", code], text=True, env=environment).strip() == then
