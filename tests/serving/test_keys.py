import errno
import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from sonorant.errors import SonorantError
from sonorant.files import read_json, write_json
from sonorant.serving.keys import Key, KeyFile, Keys, LimitReached, RefusedKey, new_key
from sonorant.serving.server import ServeConfig
from sonorant.serving.voice_processes import NotSpoken
from sonorant.serving.voices import Offer
from tests.support.serving import JSON, ask, running


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def test_a_key_is_kept_as_its_hash_alone(file: Path) -> None:
    secret = new_key(file, "app")
    assert secret not in file.read_text()
    assert file.stat().st_mode & 0o077 == 0
    assert Keys(file).caller(f"Bearer {secret}").key.name == "app"
    with pytest.raises(SonorantError, match="has a key named 'app'"):
        new_key(file, "app")


def test_a_further_key_leaves_the_file_to_whom_it_was_readable(file: Path) -> None:
    """Such as the service's group."""
    new_key(file, "one")
    file.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(file, 1234, 2345)
    before = file.stat()
    new_key(file, "two")
    after = file.stat()
    assert (after.st_uid, after.st_gid, after.st_mode) == (before.st_uid, before.st_gid, before.st_mode)
    assert [key["name"] for key in read_json(file)["keys"]] == ["one", "two"]


@pytest.mark.parametrize("error", [errno.EPERM, errno.EINVAL], ids=["another's", "of nobody in a container"])
def test_a_file_that_would_become_anothers_is_left_as_it_is(
    file: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    def refused(*_: object) -> None:
        raise OSError(error, os.strerror(error))

    new_key(file, "one")
    before = file.read_text()
    monkeypatch.setattr(os, "chown", refused)
    with pytest.raises(
        SonorantError, match=r"belongs to \d+:\d+ \(user:group\); run this command as that user or root$"
    ):
        new_key(file, "two")
    assert file.read_text() == before
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer x", "Basic {key}", "{key}"])
def test_no_other_key_is_taken(file: Path, header: str | None) -> None:
    secret = new_key(file, "app")
    with pytest.raises(RefusedKey):
        Keys(file).caller(header and header.format(key=secret))


def test_a_file_that_is_damaged_while_the_server_runs_is_told_to_its_log_alone(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = new_key(file, "app")
    keys, whole = Keys(file), file.read_text()
    for damage in ("{", '{"keys": ["secret"]}'):
        file.write_text(damage)
        with pytest.raises(NotSpoken) as told:
            keys.caller(f"Bearer {secret}")
        assert str(told.value) == "the server cannot read its keys; try again later"
        assert "keys.json" in caplog.text
    file.write_text(whole)
    assert keys.caller(f"Bearer {secret}").key.name == "app"


def test_a_key_that_is_taken_out_is_refused_from_then_on(file: Path) -> None:
    first, second = new_key(file, "one"), new_key(file, "two")
    keys = Keys(file)
    keys.caller(f"Bearer {first}")
    write_json(file, {"keys": read_json(file)["keys"][1:]})
    with pytest.raises(RefusedKey):
        keys.caller(f"Bearer {first}")
    keys.caller(f"Bearer {second}")


def test_each_limit_of_a_key_holds_for_its_minute(file: Path) -> None:
    secret, now = new_key(file, "app"), [0.0]
    key = replace(Key(**read_json(file)["keys"][0]), requests_a_minute=3, characters_a_minute=100, concurrent=2)
    write_json(file, asdict(KeyFile(keys=(key,))))
    caller = Keys(file, clock=lambda: now[0]).caller(f"Bearer {secret}")

    def refused(characters: int) -> str:
        with pytest.raises(LimitReached) as error, caller.asking(characters):
            pass
        return str(error.value)

    with caller.asking(40), caller.asking(40):
        assert "2 requests at a time" in refused(1)
    assert "100 characters per minute" in refused(21)
    with caller.asking(20):
        pass
    assert "3 requests per minute" in refused(0)
    now[0] = 61.0
    with caller.asking(100):
        pass


def test_a_server_with_keys_speaks_to_nobody_without_one(file: Path, voice_bundle: Path) -> None:
    secret = new_key(file, "app")
    offers = (Offer(name="tiny", where=str(voice_bundle)),)
    body = json.dumps({"text": "Hi."}).encode()
    write_json(file, {"keys": [read_json(file)["keys"][0] | {"requests_a_minute": 1}]})
    with running(ServeConfig(offers=offers, workers=1, keys=file)) as server:
        for path, sent in (("/v1/speech", body), ("/v1/models", None)):
            assert ask(server.url, path, sent).status == 401
            assert ask(server.url, path, sent, JSON | {"Authorization": f"Bearer {secret}"}).status == 200
        limited = ask(server.url, "/v1/speech", body, JSON | {"Authorization": f"Bearer {secret}"})
        assert limited.status == 429 and 1 <= int(limited.headers["Retry-After"]) <= 60
        assert json.loads(limited.read())["error"]["message"] == "the key 'app' allows 1 requests per minute"
        told = ask(server.url, "/metrics").read().decode()
        assert 'sonorant_requests_total{outcome="limited",voice="tiny"} 1.0' in told
        assert ask(server.url, "/").status == 404
        assert ask(server.url, "/healthz").status == 200


@pytest.mark.parametrize("text", ["", "{", '{"keys": []}', '{"keys": [{"name": "app"}]}'])
def test_a_file_that_is_no_list_of_keys_is_refused_by_name(file: Path, text: str) -> None:
    file.write_text(text)
    with pytest.raises(SonorantError, match=r"keys\.json"):
        Keys(file)
