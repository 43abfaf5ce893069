"""MLflow's webhook on a moved alias; other callers are refused."""

import time
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography.fernet import Fernet

from sonorant.registry import RegisterConfig, register
from sonorant.registry.tracking import open_store
from sonorant.serving.operation_routes import PATH, is_genuine, signature
from sonorant.serving.server import WEBHOOK_SECRET, ServeConfig
from sonorant.serving.voices import Offer
from tests.support.loudness import louder, loudest
from tests.support.mlflow_server import mlflow_server
from tests.support.ports import free_port
from tests.support.serving import running
from tests.support.waiting import wait_until

NEVER = 3600.0
"""Seconds between polls: all changes come by webhook."""
BODY = b'{"entity": "model_version_alias", "action": "created", "data": {"name": "tiny"}}'


def call(url: str, secret: str, moment: float, body: bytes = BODY, **headers: str) -> int:
    headers |= {"X-MLflow-Delivery-Id": "d", "X-MLflow-Timestamp": str(int(moment))}
    headers["X-MLflow-Signature"] = signature(secret, "d", headers["X-MLflow-Timestamp"], body)
    connection = HTTPConnection(urlsplit(url).netloc)
    connection.request("POST", PATH, body, headers | {"Content-Type": "application/json"})
    return connection.getresponse().status


def test_a_message_is_believed_if_it_is_signed_and_fresh() -> None:
    told = {"x-mlflow-delivery-id": "d", "x-mlflow-timestamp": "1000"}
    signed = told | {"x-mlflow-signature": signature("secret", "d", "1000", BODY)}
    assert is_genuine("secret", signed, BODY, 1000.0)
    assert is_genuine("secret", signed, BODY, 1299.0)
    assert not is_genuine("secret", signed, BODY, 1301.0), "old"
    assert not is_genuine("secret", signed, BODY + b" ", 1000.0), "another text"
    assert not is_genuine("other", signed, BODY, 1000.0), "another secret"
    assert not is_genuine("secret", signed | {"x-mlflow-delivery-id": "e"}, BODY, 1000.0), "another delivery"
    assert not is_genuine("secret", told, BODY, 1000.0), "no signature"
    for moment in ("", "-1", "1e3", "\u0661", "9" * 13):
        assert not is_genuine("secret", signed | {"x-mlflow-timestamp": moment}, BODY, 1000.0), moment


def test_a_store_without_webhooks_is_asked_and_the_log_says_why(
    voice_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    offers = (Offer(name="tiny", where=str(voice_bundle)),)
    with running(ServeConfig(offers=offers, workers=1, webhook="https://voices.example")) as server:
        assert "webhooks are sent by an MLflow server" in caplog.text
        assert "it is asked every 5 seconds instead" in caplog.text
        assert call(server.url, "secret", time.time()) == 404


def test_a_message_to_the_public_name_passes_a_server_on_loopback(
    voice_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy passes on the public name."""
    monkeypatch.setattr("sonorant.serving.server._subscribed", lambda *_: "secret")
    offers = (Offer(name="tiny", where=str(voice_bundle)),)
    with running(ServeConfig(offers=offers, workers=1, webhook="https://Voices.example:8443/")) as server:
        for host in ("voices.example", "voices.example:8443"):
            assert call(server.url, "secret", time.time(), Host=host) == 204
        assert call(server.url, "secret", time.time(), Host="other.example") == 403


def test_a_promotion_is_heard_at_once_where_the_registry_calls(
    voice_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    port, own = free_port(), free_port()
    local = {"MLFLOW_WEBHOOK_ALLOWED_SCHEMES": "http,https", "MLFLOW_WEBHOOK_ALLOW_PRIVATE_IPS": "true"}
    local |= {"MLFLOW_WEBHOOK_CACHE_TTL": "0"}
    local |= {"MLFLOW_WEBHOOK_SECRET_ENCRYPTION_KEY": Fernet.generate_key().decode()}
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")
    monkeypatch.setenv(WEBHOOK_SECRET, "a secret of the test")
    with mlflow_server(tmp_path, port, **local):
        for number, loudness in enumerate((1.0, 0.5), 1):
            bundle = louder(voice_bundle, tmp_path / f"bundle{number}", loudness)
            register(bundle, {}, tmp_path / "no report", RegisterConfig(model="tiny"), {})
        client = open_store().client
        client.set_registered_model_alias("tiny", "champion", "1")
        offers = (Offer(name="tiny", where="models:/tiny@champion"),)
        address = f"http://127.0.0.1:{own}"
        config = ServeConfig(offers=offers, workers=1, poll_seconds=NEVER, webhook=address)
        for _ in range(2):  # the second start finds the first's webhook
            with running(config, own) as server:
                voice = server.service.voices.named("tiny")
                assert (voice.version, voice.trouble) == ("tiny/1", "")
                plain = loudest(server)
                assert call(server.url, "forged", time.time()) == 403
                assert call(server.url, "a secret of the test", time.time() - 1000) == 403
                assert len(client.list_webhooks()) == 1
                client.set_registered_model_alias("tiny", "champion", "2")
                wait_until(lambda voice=voice: voice.version == "tiny/2")
                assert abs(loudest(server) - plain / 2) <= 1
                client.set_registered_model_alias("tiny", "champion", "1")
                wait_until(lambda voice=voice: voice.version == "tiny/1")
                assert loudest(server) == plain
