"""Keep runs in MLflow; training itself only writes plain files.

A stage's process opens `stage_run`; a thread (follower.py) sends the run directory's points and samples and the
machine's load to the store (store.py). A store that is away never stops or slows the stage.
"""

from sonorant.registry.tracking.follower import sync, tracked_runs
from sonorant.registry.tracking.mlflow_store import TrackingUnavailable, open_store
from sonorant.registry.tracking.stage_run import StageRun, describe_execution, stage_run

__all__ = ["StageRun", "TrackingUnavailable", "describe_execution", "open_store", "stage_run", "sync", "tracked_runs"]
