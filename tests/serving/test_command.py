"""`sonorant serve` as a person starts it: where it listens, what it is called, and what it writes."""

from pathlib import Path

from tests.support.serving import JSON, ask, started
from tests.support.waiting import PATIENCE

GOOD = b'{"text": "Hi."}'


def test_it_listens_on_any_address_of_loopback_and_is_called_by_it(voice_bundle: Path) -> None:
    words = (f"tiny={voice_bundle}", "--workers", "1", "--host", "127.0.0.2", "--allow-host", "voice.example.org")
    with started(*words, "--allow-host", "other.example.org") as (process, url):
        assert url.startswith("http://127.0.0.2:")
        assert ask(url, "/v1/speech", GOOD).status == 200
        for name, status in (("voice.example.org", 200), ("other.example.org", 200), ("evil.example", 403)):
            assert ask(url, "/v1/speech", GOOD, JSON | {"Host": name}).status == status
        process.terminate()
        assert process.wait(PATIENCE) == 0
        assert process.stderr.read() == ""
