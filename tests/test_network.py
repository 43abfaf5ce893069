import os
from collections.abc import Callable

import pytest

from flows.own_prefect import use_own_prefect
from sonorant import LOOPBACK, spare_loopback
from sonorant.errors import SonorantError
from sonorant.features.store.place import open_store
from sonorant.features.store.proxy import check_proxy


@pytest.mark.parametrize("reach", [lambda: open_store("s3://bucket/store"), use_own_prefect, check_proxy])
def test_a_proxy_that_is_gone_is_named(reach: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("PREFECT_API_URL", "http://prefect.example:4200/api")
    with pytest.raises(SonorantError, match=r"HTTPS?_PROXY: no proxy answers at 127.0.0.1 \(Connection refused\)"):
        reach()


def test_loopback_goes_past_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    assert LOOPBACK in os.environ["NO_PROXY"], "since sonorant was imported"
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "example.org")
    for _ in range(2):
        spare_loopback()
        assert os.environ["NO_PROXY"] == f"example.org,{LOOPBACK}"
