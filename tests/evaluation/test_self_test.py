import numpy as np
import pytest

from sonorant.audio.recognizers import Clip, load_recognizer
from sonorant.errors import SonorantError
from sonorant.evaluation import self_test
from sonorant.evaluation.error_rates import Normalizer

REFERENCES = (
    "the harbor lights flickered as the ferry came in late",
    "nobody knew why the old clock stopped at noon",
    "a thin layer of frost covered every window on the street",
    "turn left at the church and follow the narrow road",
    "wild geese were flying south above the silent lake",
)
HEARD = tuple(text.replace("late", "lake").replace("noon", "new") for text in REFERENCES)
MUMBLE = ("", "oh", "", "the")
normalize = Normalizer("en-us")


def test_an_honest_recogniser_passes_with_its_figures() -> None:
    texts = self_test.check_texts(REFERENCES, HEARD, normalize)
    assert texts["own_wer"] < 10 < 80 < texts["shuffled_wer"]
    ears = self_test.check_ears(REFERENCES, HEARD, MUMBLE, HEARD[:3], normalize)
    assert ears["noise_wer"] >= self_test.LEAST_NOISE_WER and ears["repeated_equal"] == ears["repeated"] == 3
    assert ears["repeated_wer"] == ears["repeated_wer_known"] > 0


def test_one_that_returns_the_text_whatever_it_hears_is_caught() -> None:
    with pytest.raises(SonorantError, match=r"white noise scores 0\.0 %"):
        self_test.check_ears(REFERENCES, REFERENCES, REFERENCES[:4], REFERENCES[:3], normalize)


def test_one_that_always_says_the_same_is_caught() -> None:
    with pytest.raises(SonorantError, match="with other sentences' texts score 0"):
        self_test.check_texts([REFERENCES[0]] * 5, [REFERENCES[0]] * 5, normalize)
    with pytest.raises(SonorantError, match="self-test failed"):
        self_test.check_texts(REFERENCES, [""] * 5, normalize)


def test_texts_that_belong_to_other_recordings_are_caught() -> None:
    with pytest.raises(SonorantError, match="check that the texts belong to these recordings"):
        self_test.check_texts(REFERENCES, [*REFERENCES[2:], *REFERENCES[:2]], normalize)


def test_a_recogniser_that_changed_since_the_recordings_were_recognised_is_caught() -> None:
    with pytest.raises(SonorantError, match="run recognize_recordings again"):
        self_test.check_ears(REFERENCES, HEARD, MUMBLE, ["the lights", "nobody", "a thin layer"], normalize)


def test_a_single_sentence_says_what_could_not_be_tested() -> None:
    assert self_test.check_texts(REFERENCES[:1], HEARD[:1], normalize)["shuffled_wer"].startswith("not run: ")


def test_real_noise_holds_no_words_and_is_the_same_each_time() -> None:
    silence = [Clip(np.zeros(length, np.float32), 16000) for length in (8000, 24000, 16000, 16000, 16000)]
    noise = self_test.noise_clips(silence)
    assert [clip.samples.shape for clip in noise] == [clip.samples.shape for clip in silence[: self_test.NOISE_CLIPS]]
    assert all(np.array_equal(a.samples, b.samples) for a, b in zip(noise, self_test.noise_clips(silence), strict=True))
    recognizer = load_recognizer("pocketsphinx")
    heard = [recognizer.transcribe(clip.samples, clip.rate) for clip in noise]
    ears = self_test.check_ears(REFERENCES, HEARD, heard, HEARD[: self_test.REPEATED_CLIPS], normalize)
    assert ears["noise_wer"] >= self_test.LEAST_NOISE_WER


def test_words_heard_where_a_variant_was_replaced_by_silence_are_caught_by_its_name() -> None:
    passed = self_test.check_planted(REFERENCES[0], {"fp32": ("", "the"), "int8": ("", "")}, normalize)
    assert passed["planted_in"] == "fp32, int8"
    with pytest.raises(SonorantError, match=r"in place of int8 score 0\.0 % WER"):
        self_test.check_planted(REFERENCES[0], {"fp32": ("", "oh"), "int8": (REFERENCES[0], REFERENCES[0])}, normalize)


def test_a_voice_that_is_silent_is_no_yardstick() -> None:
    sound, silence = Clip(np.full(100, 0.1, np.float32), 16000), Clip(np.full(100, 1e-6, np.float32), 16000)
    self_test.check_sound("fp32", [sound, sound, silence])
    with pytest.raises(SonorantError, match="2 of 3 clips of fp32 are silent"):
        self_test.check_sound("fp32", [sound, silence, silence])
