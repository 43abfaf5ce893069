import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sonorant.errors import SonorantError
from sonorant.extras.codec_lm.decoding.attempts import Spoken, decode_texts
from sonorant.extras.codec_lm.decoding.session import Prompt, TokenRuntime
from sonorant.extras.codec_lm.decoding.state import draws, make_rules, start_state
from sonorant.extras.codec_lm.saved import load_language_model
from sonorant.extras.codec_lm.torch_dynamic import DynamicStepper, TorchStep
from sonorant.extras.codec_lm.torch_runtime import StaticTokenRuntime, TorchTokenRuntime
from sonorant.extras.codec_lm.torch_static import Rooms, Shapes, StaticStepper, in_place
from sonorant.speech.buckets import Counters
from sonorant.speech.bundle import Bundle, read_bundle
from sonorant.speech.decoding import DecodingConfig, DecodingDescription
from sonorant.speech.runtimes import RUNTIMES, LoadOptions, load_runtime
from tests.extras.codec_lm.decoding.tiny_model import CONFIG, DESCRIPTION
from tests.support.tiny_voice import write_trained_codec_lm

SLOTS, BATCHES = (64, 128, 256), (1, 2, 4)
TEXTS = {
    "one, short": (4,), "one": (9,), "one, long": (25,),
    "two, short": (3, 4), "two": (9, 5), "two, long": (6, 25),
    "three, short": (4, 3, 4), "three": (3, 12, 7), "four, long": (25, 4, 18, 11),
}  # fmt: skip
"""Number of phonemes per row: a batch for every shape; three rows are padded to four."""
Static = Callable[..., StaticTokenRuntime]
Say = Callable[..., Spoken]
PENALISED = replace(CONFIG, repetition_penalty=1.5)
DRAWN = replace(CONFIG, temperature=0.8, top_k=9, top_p=0.9, repetition_penalty=1.2, advance="sample")


@pytest.fixture(scope="module")
def bundle(codec_lm_bundle: Path) -> Bundle:
    return read_bundle(codec_lm_bundle)


@pytest.fixture(scope="module")
def description(bundle: Bundle) -> DecodingDescription:
    assert bundle.description.decoding
    return bundle.description.decoding


@pytest.fixture(scope="module")
def dynamic(bundle: Bundle, trained_codec_lm: tuple[Path, Path]) -> TorchTokenRuntime:
    return load_runtime("torch", bundle, LoadOptions(trained=trained_codec_lm))


@pytest.fixture(scope="module")
def in_onnx(bundle: Bundle) -> TokenRuntime:
    loaded: TokenRuntime = load_runtime("onnxruntime", bundle, LoadOptions(threads=1))
    return loaded


@pytest.fixture(scope="module")
def static(bundle: Bundle, trained_codec_lm: tuple[Path, Path]) -> Static:
    def load(name: str = "torch-static", **options: Any) -> StaticTokenRuntime:
        sizes = {"batches": BATCHES, "slots": SLOTS}
        return load_runtime(name, bundle, LoadOptions(trained=trained_codec_lm, **(sizes | options)))

    return load


@pytest.fixture(scope="module")
def say(description: DecodingDescription) -> Say:
    def speak(runtime: TokenRuntime, lengths: tuple[int, ...], config: DecodingConfig = CONFIG) -> Spoken:
        rng, counts, sizes = np.random.default_rng(sum(lengths)), np.array(lengths), (len(lengths), max(lengths))
        tokens = np.stack([rng.integers(3, 30, sizes), *rng.integers(0, 2, (2, *sizes))], -1)
        tokens[np.arange(max(lengths)) >= counts[:, None]] = 0
        states = runtime.encode(tokens, counts, np.zeros(len(lengths), np.int64))
        return decode_texts(runtime.stepper(), states, counts, description, config, seed=3)

    return speak


def assert_same(got: Spoken, want: Spoken) -> None:
    for name, value in vars(want).items():
        np.testing.assert_array_equal(getattr(got, name), value, err_msg=name)


@pytest.mark.parametrize("config", [CONFIG, PENALISED, DRAWN], ids=["greedy", "penalised", "drawn"])
@pytest.mark.parametrize("lengths", TEXTS.values(), ids=TEXTS)
def test_fixed_buffers_and_onnx_runtime_give_the_codes_of_a_growing_cache(
    lengths: tuple[int, ...],
    config: DecodingConfig,
    dynamic: TorchTokenRuntime,
    in_onnx: TokenRuntime,
    static: Static,
    say: Say,
) -> None:
    runtime, want = static(), say(dynamic, lengths, config)
    assert want.lengths_B.min() > 0 and len(np.unique(want.codes_BFG)) > 1
    assert_same(say(runtime, lengths, config), want)
    assert_same(say(in_onnx, lengths, config), want)
    assert (runtime.counters().hits, runtime.counters().misses) == (1, 0)


@pytest.mark.parametrize("changes", [{"attention": "sliding"}, {"attention": "block"}, {"prompt_frames": 5}], ids=str)
def test_partial_attention_and_prompts(changes: dict[str, Any], tmp_path: Path) -> None:
    step = step_of(write_trained_codec_lm(tmp_path, **changes)[0])
    config, lengths = step.model.config, np.array([5, 9, 3])
    description = replace(DESCRIPTION, codes=15, advances=3, prompt_frames=config.prompt_frames)
    tokens = torch.randint(3, 30, (3, 9, 3)) % torch.tensor([30, 3, 2])
    with torch.no_grad():
        states = step.model.encode_speech(tokens, torch.tensor(lengths), torch.zeros(3).long())
    prompt = Prompt(np.arange(24).reshape(3, 4, 2) % 15, np.array([4, 0, 2])) if config.prompt_frames else None
    want, got = (
        decode_texts(stepper, states.numpy(), lengths, description, CONFIG, prompt=prompt)
        for stepper in (DynamicStepper(step), fixed(step, description, (4,), (128,)))
    )
    assert_same(got, want)


def step_of(trained: Path) -> TorchStep:
    return TorchStep(load_language_model(trained)[0], torch.device("cpu"))


def fixed(
    step: TorchStep,
    description: DecodingDescription,
    batches: tuple[int, ...],
    slots: tuple[int, ...],
    count: Callable[[bool], None] = lambda hit: None,
) -> StaticStepper:
    functions = {drawn: in_place(step, drawn) for drawn in (False, True)}
    return StaticStepper(Rooms(step, description, Shapes(batches, slots), functions, lambda run: run), count)


def test_a_batch_beyond_all_shapes_is_decoded_and_counted(dynamic: TorchTokenRuntime, static: Static, say: Say) -> None:
    runtime = static()
    for lengths in ((4, 5, 6, 7, 8), (60,)):
        assert_same(say(runtime, lengths), say(dynamic, lengths))
    assert (runtime.counters().hits, runtime.counters().misses) == (0, 2)


def test_a_shape_has_room_for_the_slots_before_the_first_frame(tmp_path: Path) -> None:
    step, lengths = step_of(write_trained_codec_lm(tmp_path)[0]), np.array([9])
    description = replace(DESCRIPTION, codes=15, advances=3)
    states = np.random.default_rng(3).standard_normal((1, 9, 16)).astype(np.float32)
    config = replace(CONFIG, longest_phoneme=1e3, longest_silence=1e3, longest_repeat=1e3)
    frames = round(config.budget * description.frames_per_phoneme.p99 * 9)
    step.model.advance.bias.data[0] = 1e3  # the pointer never moves, so the whole budget is used
    wanted = decode_texts(DynamicStepper(step), states, lengths, description, config)
    assert wanted.lengths_B[0] == frames
    needed = frames + description.codebooks - 1 + 2  # a start and a prompt's padding
    hits: list[bool] = []
    for slots in (needed - 1, needed):
        stepper = fixed(step, description, (1,), (slots,), hits.append)
        assert_same(decode_texts(stepper, states, lengths, description, config), wanted)
    assert hits == [False, True]


def test_nan_left_in_the_buffers_harms_no_later_batch(trained_codec_lm: tuple[Path, Path]) -> None:
    """Also in other rooms of the same memory."""
    step, description = step_of(trained_codec_lm[0]), replace(DESCRIPTION, codes=15, advances=3)
    stepper = fixed(step, description, (1, 2), (64, 128))
    states, lengths = np.random.default_rng(2).standard_normal((2, 9, 16)).astype(np.float32), np.array([9, 9])
    batches = [(states, lengths), (states[:1], lengths[:1]), (states[:1, :4], lengths[:1] - 5)]
    wanted = [decode_texts(DynamicStepper(step), *batch, description, CONFIG) for batch in batches]
    for batch, spoken in zip(batches, wanted, strict=True):
        with pytest.raises(SonorantError, match="NaN"):
            decode_texts(stepper, np.full_like(states, np.nan), lengths, description, CONFIG)
        assert_same(decode_texts(stepper, *batch, description, CONFIG), spoken)


def test_threads_get_the_codes_of_one_thread(static: Static, say: Say) -> None:
    runtime, texts = static(), list(TEXTS.values())
    alone = [say(runtime, lengths, DRAWN) for lengths in texts]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda lengths: say(runtime, lengths, DRAWN), texts * 2))
    for got, wanted in zip(together, alone * 2, strict=True):
        assert_same(got, wanted)
    assert runtime.counters().hits == 3 * len(texts)
    gc.collect()
    assert 1 <= len(runtime._idle) <= 5  # later steppers reused rooms


def test_a_step_continues_from_a_given_state(
    description: DecodingDescription, trained_codec_lm: tuple[Path, Path]
) -> None:
    """`verify` feeds every runtime the reference's states."""
    step = step_of(trained_codec_lm[0])
    states, lengths = np.random.default_rng(1).standard_normal((2, 6, 16)).astype(np.float32), np.array([6, 4])
    rules = make_rules(lengths, description, CONFIG, lambda steps, numbers: np.zeros((2, steps, numbers), np.float32))
    assert not draws(rules)
    no_prompt = np.zeros((2, 1, 2), np.int64), np.zeros(2, np.int64)
    steppers = DynamicStepper(step), fixed(step, description, (2,), (64, 128))
    for stepper in steppers:
        stepper.begin(states, lengths, *no_prompt, rules)
    state = start_state(rules, no_prompt[1], description)
    for _ in range(12):
        fed = state._replace(codes_BG=(state.codes_BG + 1) % 15)  # codes of neither
        state, other = (stepper.run(fed, 1) for stepper in steppers)
        for name, got, want in zip(state._fields, other, state, strict=True):
            np.testing.assert_allclose(got, want, atol=1e-5, err_msg=name)


@pytest.mark.long  # a minute and a half of a quiet core, most of it g++
@pytest.mark.timeout(1800)
def test_compiled_steps_give_the_same_codes_and_a_second_start_takes_them_from_the_cache(
    dynamic: TorchTokenRuntime, static: Static, say: Say, cpp: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every shape, greedy and drawn, also from another thread. torch fails if it would compile again."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "")  # restored after the test
    runtime = static("torch-compiled", cache_folder=tmp_path)
    with torch._inductor.config.patch(compile_threads=1):  # a pool of processes costs more than it saves here
        runtime.warm_up(progress=False)
    assert runtime.compiler
    assert (runtime.compiler.taken, runtime.compiler.made) == (0, 4)  # one row or several, greedy or drawn
    with torch.compiler.set_stance("fail_on_recompile"):
        for lengths in TEXTS.values():
            for config in (CONFIG, DRAWN):
                assert_same(say(runtime, lengths, config), say(dynamic, lengths, config))
    with ThreadPoolExecutor(1) as other:
        assert_same(other.submit(say, runtime, lengths).result(), say(dynamic, lengths))
    assert runtime.counters() == Counters(hits=2 * len(TEXTS) + 1, misses=0, prepared=4, late=0)

    again = static("torch-compiled", batches=BATCHES[-1:], slots=SLOTS[-1:], cache_folder=tmp_path)
    again.warm_up(progress=False)
    assert again.compiler
    assert (again.compiler.taken, again.compiler.made) == (2, 0)


@pytest.fixture(scope="session")
def frontend() -> None:
    """A training machine may lack the tiny voice's text frontend; `gpu_tokens` does not need one."""
    pytest.importorskip("gruut")


GPU_RUNTIMES = [row.name for row in RUNTIMES.values() if (row.engine, row.device) == ("torch", "cuda")]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU")
@pytest.mark.parametrize("name", GPU_RUNTIMES)
def test_gpu_runtimes_give_the_codes_of_the_cpu(
    name: str, frontend: None, dynamic: TorchTokenRuntime, static: Static, say: Say, tmp_path: Path
) -> None:
    runtime = static(name, cache_folder=tmp_path, warm_up=True)
    for lengths in TEXTS.values():
        assert_same(say(runtime, lengths), say(dynamic, lengths))
    assert not isinstance(runtime, StaticTokenRuntime) or runtime.counters().late == 0
