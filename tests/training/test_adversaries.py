from pathlib import Path

import pytest
import torch

from sonorant.errors import SonorantError
from sonorant.training.waveform import windows
from tasks.fingerprint import in_use
from testbed.tiny_training import settings, tiny_recipe
from tests.training.trainings import batches_of, step_of


def test_windows_are_the_same_stretch_of_each_row_of_both_signals() -> None:
    torch.manual_seed(1)
    real = torch.arange(4 * 100.0).reshape(4, 100)
    first, second = windows((real, real + 0.5), 10)
    assert first.shape == (4, 10) and torch.equal(second, first + 0.5)
    assert torch.equal(first, first[:, :1] + torch.arange(10.0)), "a stretch, in its order"
    assert len(set((first[:, 0] % 100).tolist())) > 1, "each row its own"


def test_every_sample_is_judged_over_time_and_gradients_reach_their_own() -> None:
    torch.manual_seed(1)
    signal = torch.zeros(2, 30, requires_grad=True)
    for _ in range(200):
        (judged,) = windows((signal,), 10)
        judged.sum().backward()
    assert signal.grad is not None and bool((signal.grad > 0).all())
    assert windows((signal,), 31)[0] is signal, "a shorter segment is judged whole"


def test_discriminators_hear_only_their_window(features: Path, alone: None) -> None:
    changes = {"adversarial": True, "adversarial_frames": 10, "adversarial_width": 4}
    trained = step_of("vocoder", features, **changes)
    hop, heard = trained.recipe.store.audio.hop, set()
    _, discriminator = trained.recipe.phases
    discriminator.module.discriminators.register_forward_pre_hook(lambda _, given: heard.add(given[0].shape[1]))
    losses, _ = trained.take(0, *batches_of(trained.recipe, 0))
    assert heard == {10 * hop}
    assert all(float(losses[name]) > 0 for name in ("adversarial", "features", "discriminator"))


def test_a_window_shorter_than_a_transform_is_one_line(features: Path) -> None:
    with pytest.raises(SonorantError, match=r"^train_vocoder.adversarial_frames must be at least 9, not 8: .* 1024"):
        tiny_recipe("vocoder", features, adversarial=True, adversarial_frames=8)
    tiny_recipe("vocoder", features, adversarial=False, adversarial_frames=8)


def test_settings_of_discriminators_that_are_not_there_decide_no_run() -> None:
    def of(**changes: object) -> dict[str, object]:
        return in_use(settings("vocoder", **changes)[1])

    assert of(adversarial_width=4) == of(adversarial_frames=5), "a finished training without them is found again"
    assert of(adversarial=True, adversarial_width=4) != of(adversarial=True, adversarial_width=5)
    idle = {"learning_rate_batch"}
    train = settings("acoustic")[1]
    assert in_use(train) == {name: value for name, value in train.items() if name not in idle}
