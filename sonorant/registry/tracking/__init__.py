"""MLflow tracking of stages; training itself writes plain files.

A stage opens `stage_run`; a thread (follower.py) sends points, samples and machine load to the store
(mlflow_store.py). An unavailable store never stops or slows a stage.
"""

from sonorant.registry.tracking.follower import sync, tracked_runs
from sonorant.registry.tracking.mlflow_store import TrackingUnavailable, open_store
from sonorant.registry.tracking.stage_tracking import StageRun, describe_execution, stage_run

__all__ = ["StageRun", "TrackingUnavailable", "describe_execution", "open_store", "stage_run", "sync", "tracked_runs"]
