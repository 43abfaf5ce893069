from itertools import product
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from sonorant.cli.main import main
from sonorant.errors import SonorantError
from sonorant.extras.elsewhere.exported_lexicon import pronunciations
from sonorant.extras.elsewhere.sherpa import export_sherpa
from sonorant.plugins import load_family
from sonorant.speech import Voice
from sonorant.speech.bundle import read_bundle
from sonorant.text.frontend import load_frontend
from sonorant.text.user_lexicon import Lexicon
from tests.support.runtimes import tokens_of

TEXTS = ("Good morning.", "No?", "We came, we saw, and it was over in a moment!")
ROUNDING = 2e-3
"""sherpa-onnx has its own ONNX Runtime."""


@pytest.fixture(scope="module")
def words_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Only the texts' words, because gruut's whole lexicon takes half a minute."""
    path = tmp_path_factory.mktemp("words") / "words.txt"
    path.write_text(" ".join(TEXTS).translate(str.maketrans("", "", ".,?!")), encoding="utf-8")
    return path


@pytest.fixture
def few_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sonorant.extras.elsewhere.exported_lexicon._words_of_gruut", lambda frontend: [])


def test_one_graph_speaks_as_three(voice_bundle: Path) -> None:
    voice = Voice.load(voice_bundle)
    model = load_family("parallel").whole_graph(voice.bundle)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for text, manner in product(TEXTS, ((1.0, 0.0, 0.0), (1.5, 3.0, -6.0))):
        given = dict(zip(("speed", "pitch", "energy"), manner, strict=True))
        inputs = {"tokens": tokens_of(voice, text).astype(np.int64)[None], "speaker": np.zeros(1, np.int64)}
        inputs |= {name: np.array([value], np.float32) for name, value in given.items()}
        [samples], expected = session.run(None, inputs), voice.say(text, **given)
        assert samples.shape == (1, len(expected)) and np.abs(samples[0] - expected).max() < 1e-5


def test_a_voice_that_decodes_step_by_step_is_no_single_graph(codec_lm_bundle: Path) -> None:
    with pytest.raises(SonorantError, match="family codec_lm decodes step by step and cannot be one graph"):
        load_family("codec_lm").whole_graph(read_bundle(codec_lm_bundle))


@pytest.mark.usefixtures("few_words")
def test_sherpa_onnx_speaks_a_text_as_we_do_sentence_by_sentence(
    voice_bundle: Path, words_file: Path, tmp_path: Path
) -> None:
    sherpa = pytest.importorskip("sherpa_onnx", reason="sherpa-onnx is not installed: pip install sherpa-onnx")
    voice = Voice.load(voice_bundle)
    export_sherpa(voice, tmp_path / "sherpa", words_file)
    files = {name: str(tmp_path / "sherpa" / f"{name}.txt") for name in ("lexicon", "tokens")}
    model = sherpa.OfflineTtsVitsModelConfig(model=str(tmp_path / "sherpa" / "model.onnx"), **files)
    speaker = sherpa.OfflineTts(sherpa.OfflineTtsConfig(model=sherpa.OfflineTtsModelConfig(vits=model, num_threads=1)))
    assert speaker.sample_rate == voice.sample_rate and speaker.num_speakers == len(voice.speakers)
    for speed in (1.0, 0.8, 1.5):
        how = sherpa.GenerationConfig()
        how.speed, how.silence_scale = speed, 1.0  # its default shortens pauses to a fifth
        for text in TEXTS:
            found = np.array(speaker.generate(text, how).samples)
            expected = voice.say(text, speed=speed)
            assert len(found) == len(expected) and np.abs(found - expected).max() < ROUNDING
        how.sid = 1
        both = np.array(speaker.generate(" ".join(TEXTS[:2]), how).samples)
        expected = np.concatenate([voice.say(text, speaker=voice.speakers[1], speed=speed) for text in TEXTS[:2]])
        assert len(both) == len(expected) and np.abs(both - expected).max() < ROUNDING
        how.sid = 0


@pytest.mark.usefixtures("few_words")
def test_the_command_writes_a_folder_once(
    voice_bundle: Path, words_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["export-sherpa", "--voice", str(voice_bundle), "--words", str(words_file), "-o", str(tmp_path / "out")]
    main(command)
    assert "13 words" in capsys.readouterr().out
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["lexicon.txt", "model.onnx", "tokens.txt"]
    lexicon = dict(
        line.split(" ", 1) for line in (tmp_path / "out/lexicon.txt").read_text(encoding="utf-8").splitlines()
    )
    assert lexicon["morning"] == "#m ˈɔ ɹ n ɪ ŋ"
    with pytest.raises(SystemExit):
        main(command)
    assert "exists; give a new folder" in capsys.readouterr().err


def test_every_word_of_the_language_is_known() -> None:
    """A sample of gruut's lexicon."""
    from sonorant.extras.elsewhere.exported_lexicon import _words_of_gruut

    words = list(_words_of_gruut(load_frontend("gruut", "en-us")))
    assert len(words) > 100_000 and {"morning", "don't", "a"} <= set(words)


@pytest.mark.usefixtures("few_words")
def test_apostrophes_are_folded_and_words_left_out_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "words.txt").write_text("y’all DON’T Привет naïve中", encoding="utf-8")
    frontend = load_frontend("gruut", "en-us", lexicon=Lexicon("en-us", {"New Quay": "n ˈu # k ˈi", "Zoë": "z ˈoʊ i"}))
    found = pronunciations(frontend, tmp_path / "words.txt")
    assert list(found) == ["don't", "y'all", "zoë"]
    assert found["don't"] == frontend.speak("don't").phonemes
    named = "3 words left out (without a sound in en-us, or with a blank): New Quay, naïve中, Привет"
    assert named in caplog.messages


def test_a_language_without_words_says_what_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    frontend = load_frontend("gruut", "en-us")
    monkeypatch.setattr(frontend, "name", "espeak")
    with pytest.raises(SonorantError, match="has no word list for en-us; give a file of words with --words"):
        pronunciations(frontend)


def test_a_voice_that_cannot_be_exported_is_refused_before_a_word_is_looked_up(
    codec_lm_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "sonorant.extras.elsewhere.sherpa.pronunciations", lambda *_: pytest.fail("it takes half a minute")
    )
    with pytest.raises(SystemExit):
        main(["export-sherpa", "--voice", str(codec_lm_bundle), "-o", str(tmp_path / "out")])
    assert "family codec_lm decodes step by step" in capsys.readouterr().err and not (tmp_path / "out").exists()
