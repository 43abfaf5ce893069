"""One thread for torch: not all of its sums are the same to the bit on any number of threads."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def use_one_thread() -> None:
    """Prepare a worker."""
    torch.set_num_threads(1)


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute here as a worker does; afterwards there are as many threads as before."""
    before = torch.get_num_threads()
    use_one_thread()
    try:
        yield
    finally:
        torch.set_num_threads(before)
