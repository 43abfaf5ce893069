"""The server's metrics for Prometheus."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

FIRST_AUDIO = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
REAL_TIME = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)


class Metrics:
    """Counters and gauges of one server; memory, CPU time and open files of its process under Prometheus' own names."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = self._counter("requests", "Requests to speak, by how they ended", "voice", "outcome")
        self.first_audio = self._histogram("first_audio_seconds", "Request to first sound", FIRST_AUDIO)
        self.real_time = self._histogram("real_time_factor", "Seconds of work a second of speech", REAL_TIME)
        self.audio = self._counter("audio_seconds", "Speech that was made", "voice")
        self.characters = self._counter("characters", "Characters that were asked for", "voice")
        self.late = self._counter("late_compilations", "Graphs prepared while a request waited", "voice")
        self.runaways = self._counter("runaways", "Sentences that a guard had to end", "voice")
        self.deaths = self._counter("worker_deaths", "Processes that died and were replaced")

    def watch(self, waiting: Callable[[], int], speaking: Callable[[], int], memory: Callable[[], int]) -> None:
        """Add gauges of the queue and of the voices' memory."""
        self._gauge("queue", "Requests that wait for a place").set_function(waiting)
        self._gauge("speaking", "Requests that have one").set_function(speaking)
        self._gauge("voice_memory_bytes", "Memory of the processes that speak").set_function(memory)

    def were_late(self, voice: str, graphs: int) -> None:
        """Count graphs prepared while requests waited."""
        self.late.labels(voice).inc(graphs)

    def text(self) -> bytes:
        return generate_latest(self.registry)

    def _counter(self, name: str, says: str, *labels: str) -> Counter:
        return Counter(f"sonorant_{name}", says, labels, registry=self.registry)

    def _histogram(self, name: str, says: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"sonorant_{name}", says, ("voice",), buckets=buckets, registry=self.registry)

    def _gauge(self, name: str, says: str) -> Gauge:
        return Gauge(f"sonorant_{name}", says, registry=self.registry)
