"""Flows: when and where the stages and actions of `tasks` run, with Prefect."""

import tasks as tasks  # one line on Ctrl-C, also while prefect is imported
