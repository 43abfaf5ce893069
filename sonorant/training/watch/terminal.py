"""A training on a terminal, drawn anew each time, or in a log as one line each time."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from sonorant.training.watch.view import ENDS, View, Watched, find_run

ON_TERMINAL, IN_LOG = 2.0, 10.0
"""Seconds between looks where none are given."""
STYLES = {"failed": "bold red", "killed": "bold red", "stopped": "yellow", "finished": "green"}


def watch(path: Path, interval: float | None = None, once: bool = False) -> int:
    """Show the training at or below `path` until it ends; return the exit status (see ENDS).

    Args:
        interval: seconds between looks.
        once: look once; the exit status is 0 while it trains.

    Raises SonorantError where no training has begun, or a file of the run directory is damaged.
    """
    watched, console = Watched(find_run(path)), Console()
    wait = interval or (ON_TERMINAL if console.is_terminal else IN_LOG)
    if once or not console.is_terminal:
        return _follow(watched, wait, once, _in_lines())
    with Live(console=console, auto_refresh=False) as live:
        return _follow(watched, wait, once, lambda view: live.update(drawn(view), refresh=True))


def _follow(watched: Watched, wait: float, once: bool, show: Callable[[View], None]) -> int:
    while True:
        view = watched.look()
        show(view)
        if once or view.state in ENDS:
            return ENDS.get(view.state, 0)
        time.sleep(wait)


def _in_lines() -> Callable[[View], None]:
    """Prints a line for each view, and each finding when it is new."""
    told: set[str] = set()

    def show(view: View) -> None:
        print(line(view), flush=True)
        sentences = [sentence(one) for one in view.findings]
        for words in sentences:
            if words.split(":")[0] not in told:
                print(f"  {words}", flush=True)
        told.clear()
        told.update(words.split(":")[0] for words in sentences)
        if view.message:
            print(f"  {view.message}", file=sys.stderr, flush=True)

    return show


def line(view: View) -> str:
    """The view in one line."""
    parts = [f"{view.model} {view.step}/{view.steps} {view.state}", *figures(view)]
    if view.findings:
        parts.append(", ".join(sentence(one).split(":")[0] for one in view.findings))
    return ", ".join(parts)


def figures(view: View) -> list[str]:
    """Loss, pace, time left and the last checkpoint, as far as they are known."""
    found = []
    if view.loss is not None:
        found.append(f"loss {view.loss:.4f}")
    if view.validation is not None:
        found.append(f"validation {view.validation:.4f}")
    if view.pace and view.state == "running":
        found.append(f"{1 / view.pace:.2f} steps/s")
        if view.speed is not None:
            found.append(f"{view.speed:.0f} audio-s/s")
        if view.seconds_left is not None:
            found.append(f"{clock(view.seconds_left)} left")
    saved = f"checkpoint at step {view.saved}" if view.saved else "no checkpoint yet"
    return [*found, f"{saved}, {clock(view.saved_ago)} ago" if view.saved and view.state == "running" else saved]


def drawn(view: View) -> Group:
    """The view as a screen: progress, figures, ranks, findings, and how it ended."""
    title = Text.assemble((view.model, "bold"), " ", (view.state, STYLES.get(view.state, "cyan")), f"  {view.path}")
    bar = ProgressBar(total=max(view.steps, 1), completed=view.step, width=60)
    progress = Table.grid(padding=(0, 1))
    progress.add_row(bar, f"{view.step}/{view.steps}")
    parts: list[RenderableType] = [title, progress, Text(", ".join(figures(view)))]
    if view.ranks:
        parts.append(_ranks(view))
    parts += [Text(sentence(one), style="yellow") for one in view.findings]
    if view.state == "running" and not view.findings:
        parts.append(Text("no rank is idle, slow or at a limit", style="green"))
    if view.message:
        parts.append(Text(view.message, style="" if view.state == "finished" else "red"))
    return Group(*parts)


def _ranks(view: View) -> Table:
    table = Table(box=None, header_style="dim")
    shares = ("computing", "data", "waiting", "rest")
    for name in ("rank", "loss", "audio-s/s", *shares, "GPU"):
        table.add_column(name, justify="right")
    for one in view.ranks:
        loss = "-" if one.loss is None else f"{one.loss:.4f}"
        speed = "-" if one.speed is None else f"{one.speed:.0f}"
        gpu = "-" if one.gpu is None else f"{one.gpu:.0f}%"
        times = [f"{one.shares[name]:.0%}" if one.shares else "-" for name in shares]
        table.add_row(str(one.rank), loss, speed, *times, gpu)
    return table


def sentence(finding: dict[str, object]) -> str:
    """A finding in one sentence; up to the colon it names the rank and the kind."""
    return f"rank {finding['rank']} {finding['kind']}: {finding['sentence']} (since step {finding['since']})"


def clock(seconds: float) -> str:
    """Hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
