"""Metrics for Prometheus."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

FIRST_AUDIO = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
REAL_TIME = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)


class Metrics:
    """Metrics of one server; metrics of its process have Prometheus' standard names."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = self._counter("requests", "Speech requests by outcome", "voice", "outcome")
        self.first_audio = self._histogram(
            "first_audio_seconds", "Seconds from the request to the first audio", FIRST_AUDIO
        )
        self.real_time = self._histogram("real_time_factor", "Computing seconds per second of speech", REAL_TIME)
        self.audio = self._counter("audio_seconds", "Seconds of speech", "voice")
        self.characters = self._counter("characters", "Characters of requests", "voice")
        self.late = self._counter("late_compilations", "Graphs compiled while a request waited", "voice")
        self.runaways = self._counter("runaways", "Sentences with an abnormal end", "voice")
        self.deaths = self._counter("worker_deaths", "Speaking processes that died")

    def watch(self, waiting: Callable[[], int], speaking: Callable[[], int], memory: Callable[[], int]) -> None:
        self._gauge("queue", "Waiting requests").set_function(waiting)
        self._gauge("speaking", "Running requests").set_function(speaking)
        self._gauge("voice_memory_bytes", "Memory of the speaking processes").set_function(memory)

    def were_late(self, voice: str, graphs: int) -> None:
        self.late.labels(voice).inc(graphs)

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def _counter(self, name: str, says: str, *labels: str) -> Counter:
        return Counter(f"sonorant_{name}", says, labels, registry=self.registry)

    def _histogram(self, name: str, says: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"sonorant_{name}", says, ("voice",), buckets=buckets, registry=self.registry)

    def _gauge(self, name: str, says: str) -> Gauge:
        return Gauge(f"sonorant_{name}", says, registry=self.registry)
