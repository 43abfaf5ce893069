"""A rank that waits for the run directory only a moment. Takes the arguments of `sonorant.training.worker`."""

from sonorant.training import run_directory, worker

if __name__ == "__main__":
    run_directory.PATIENCE = 1.0
    worker.main()
