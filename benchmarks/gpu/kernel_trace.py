"""Figures from a trace of torch's profiler: device time by region and operator, its gaps, and the host's work.
Regions are the spans of `record_function`."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

Found = dict[str, Any]
RENAMED = {"enumerate": "data", "DistributedDataParallel": "forward", "Optimizer": "AdamW"}
"""Prefixes of torch's own regions, and their names here."""
SCOPES = re.compile(r"void |at::native::|\(anonymous namespace\)::|_kernel_impl_nocast")
"""Parts removed from kernels' names."""
SYNCS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")


class Table(defaultdict[str, list[float]]):
    """Number of calls and milliseconds per step, by name."""

    def __init__(self, steps: int) -> None:
        super().__init__(lambda: [0.0, 0.0])
        self.steps = steps

    def add(self, name: str, microseconds: float) -> None:
        self[name][0] += 1 / self.steps
        self[name][1] += microseconds / 1000 / self.steps

    def top(self, rows: int = 25) -> dict[str, list[float]]:
        ordered = sorted(self.items(), key=lambda item: -item[1][1])[:rows]
        return {name: [round(calls, 1), round(time, 3)] for name, (calls, time) in ordered}


def around(points: list[Found], spans: list[Found]) -> Iterator[list[Found]]:
    """For each point in order of time, the spans that contain its start, outermost first.

    Subtracts from each span's `self` the time of the spans inside it.
    """
    marks = [(one["ts"], -one["dur"], True, one) for one in spans] + [(one["ts"], 0.0, False, one) for one in points]
    stack: list[Found] = []
    for start, _, is_span, one in sorted(marks, key=lambda mark: mark[:3]):
        while stack and stack[-1]["ts"] + stack[-1]["dur"] <= start:
            stack.pop()
        if not is_span:
            yield [*stack]
            continue
        if stack:
            stack[-1]["self"] -= one["dur"]
        stack.append(one)


def analysed(events: list[Found], steps: int) -> Found:
    """Figures per step of a trace of `steps` steps: [calls, milliseconds] by region and operator, gaps, and the
    host's work."""
    spans: defaultdict[str, list[Found]] = defaultdict(list)
    for event in events:
        if event.get("ph") == "X":
            more = {"args": event.get("args", {}), "regions": [], "operators": [], "self": event["dur"]}
            spans[event["cat"]].append(event | more)
    for one in spans["user_annotation"]:
        one["name"] = RENAMED.get(re.split(r"\W", one["name"])[0], one["name"])
    operators, calls = spans["cpu_op"], spans["cuda_runtime"] + spans["cuda_driver"]
    hosted = sorted(operators + calls, key=lambda one: one["ts"])
    for one, stack in zip(hosted, around(hosted, spans["user_annotation"]), strict=True):
        one["regions"] = [region["name"] for region in stack]
    for thread in {one["tid"] for one in hosted}:
        points = [one for one in hosted if one["tid"] == thread]
        for one, stack in zip(points, around(points, [one for one in operators if one["tid"] == thread]), strict=True):
            one["operators"] = stack
    # An operator's number is that of the graph's next node, so the last operator of a number made the node.
    forward = {one["args"].get("Sequence number"): one["regions"][-1] for one in hosted if is_forward(one)}
    device = spans["kernel"] + spans["gpu_memcpy"] + spans["gpu_memset"]
    launches = {call["args"].get("correlation"): call for call in calls}
    if not device:  # a dry run: operators that call no others replace kernels
        device = [one | {"args": {"correlation": one["ts"]}} for one in operators if one["self"] == one["dur"]]
        launches = {one["ts"]: one for one in operators}
    host, api, waits, in_region = (Table(steps) for _ in range(4))
    for one in operators:
        host.add(one["name"], one["self"])
    for one in spans["user_annotation"]:
        in_region.add(one["name"], one["self"])
    for call in calls:
        api.add(call["name"], call["dur"])
        if call["name"] in SYNCS:
            waits.add(": ".join(labels(call, forward)), call["dur"])
    found = on_device(device, lambda kernel: labels(launches.get(kernel["args"].get("correlation")), forward), steps)
    found |= {"host_regions": in_region.top(), "host_waits": waits.top(10)}
    return found | {"host_api": api.top(10), "host_operators": host.top(10)}


def is_forward(one: Found) -> bool:
    return bool("Sequence number" in one["args"] and one["regions"] and not one["args"].get("Fwd thread id"))


def labels(call: Found | None, forward: dict[int, str]) -> tuple[str, str]:
    """Region and operator of a host call. Backward regions are those of the forward operators."""
    if call is None:
        return "unknown", "unknown"
    region = call["regions"][-1] if call["regions"] else "between"
    names = [one["name"] for one in call["operators"]]
    nodes = [one for one in call["operators"] if one["name"].startswith("autograd::engine::evaluate_function")]
    if region == "backward" and nodes:
        region = f"backward of {forward.get(nodes[0]['args'].get('Sequence number', -1), 'others')}"
    return region, names[-1] if names else call["name"]


def on_device(kernels: list[Found], label: Callable[[Found], tuple[str, str]], steps: int) -> Found:
    """Figures of kernels and copies; time shared by several is counted for the first."""
    by_region, by_operator, by_kernel, gaps, long_gaps = (Table(steps) for _ in range(5))
    ordered = sorted(kernels, key=lambda one: one["ts"])
    end = ordered[0]["ts"]
    for kernel in ordered:
        region, operator = label(kernel)
        gap, last = kernel["ts"] - end, kernel["ts"] + kernel["dur"]
        if gap > 0:
            gaps.add(region, gap)
            long_gaps.add("over 10 us" if gap > 10 else "shorter", gap)
        busy = max(0.0, last - max(end, kernel["ts"]))
        end = max(end, last)
        by_region.add(region, busy)
        by_operator.add(f"{region}: {operator}", busy)
        by_kernel.add(SCOPES.sub("", kernel["name"])[:70], busy)
    count, busy = (sum(column) for column in zip(*by_region.values(), strict=True))
    idle = sum(gap for _, gap in gaps.values())
    found: Found = {"kernels": round(count), "busy_ms": round(busy, 2), "gap_ms": round(idle, 2)}
    found |= {"gaps": long_gaps.top(), "regions": by_region.top(), "gaps_before_region": gaps.top()}
    return found | {"operators": by_operator.top(), "device_kernels": by_kernel.top(12)}
