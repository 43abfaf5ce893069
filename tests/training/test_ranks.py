import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.distributed as dist

from sonorant.training.distributed import ranks
from sonorant.training.distributed.ranks import Ranks
from sonorant.training.worker import PEER_GONE


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> list[Ranks]:
    """Two ranks with a store and no process group."""
    store = dist.HashStore()
    monkeypatch.setattr(dist.distributed_c10d, "_get_default_store", lambda: store)
    return [Ranks(rank, 2, 0, torch.device("cpu")) for rank in range(2)]


def test_all_go_on_when_each_has_done_its_work(two: list[Ranks]) -> None:
    ended: list[str] = []
    gates = [threading.Event(), threading.Event()]

    def rank(number: int) -> list[str | None]:
        found = []
        for at_work in (1, 0):

            def work(at_work: int = at_work) -> str:
                assert gates[at_work].wait(60)
                ended.append(f"work {at_work}")
                return f"of rank {number}"

            found.append(two[number].after(work if number == at_work else None))
            ended.append(f"rank {number}")
        return found

    with ThreadPoolExecutor(2) as pool:
        results = [pool.submit(rank, number) for number in range(2)]
        time.sleep(0.1)
        assert ended == [], "nobody goes on before the work is done"
        gates[1].set()
        gates[0].set()
        assert [result.result(60) for result in results] == [[None, "of rank 0"], ["of rank 1", None]]
    assert ended[0] == "work 1" and set(ended[1:3]) <= {"rank 0", "rank 1", "work 0"}
    assert ended.index("work 0") > ended.index("rank 0")


def test_a_rank_at_work_shows_that_it_lives(two: list[Ranks], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "BEAT", 0.05)
    monkeypatch.setattr(ranks, "SILENCE", 1.0)
    with ThreadPoolExecutor(2) as pool:
        waiting = pool.submit(two[0].after, None)
        assert two[1].after(lambda: time.sleep(3.0) or "done") == "done"
        assert waiting.result(60) is None


def test_a_rank_that_is_silent_is_not_waited_for_forever(two: list[Ranks], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "SILENCE", 0.1)
    with pytest.raises(RuntimeError, match=PEER_GONE.pattern):
        two[0].after(None)


class Gone:
    def add(self, key: str, amount: int) -> int:
        raise dist.DistNetworkError("recvValue failed")


def test_a_store_that_is_gone_is_a_peer_that_is_gone(two: list[Ranks], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist.distributed_c10d, "_get_default_store", Gone)
    monkeypatch.setattr(ranks, "BEAT", 0.01)
    with pytest.raises(RuntimeError, match=PEER_GONE.pattern):
        two[1].after(lambda: time.sleep(0.1))
