# Commands of the project; `make` alone lists them. Each sets up what it needs.
.DEFAULT_GOAL := help
.PHONY: help demo test test-bench test-long test-programs check serve stop tour bench gpu-check clean
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PYTHON ?= $(shell for p in python3.11 python3.12 python3; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
READY := $(VENV)/.installed
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
# Prefect keeps its things in the project. sonorant/__init__.py switches off telemetry.
export PREFECT_HOME := $(CURDIR)/runs/prefect

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) ## from prompts to a registered voice, then its figures; FAMILY=codec_lm: autoregressive; CORPUS=<folder>: a person's, in voices/<name>
	@sh infra/install_system_packages.sh
	@python -m flows.demo $(if $(FAMILY),--family $(FAMILY)) $(if $(CORPUS),--corpus "$(CORPUS)")

test: $(READY) test-programs ## run the tests
	@python -m pytest -n 2 --dist loadfile -m "not long and not bench"

test-long: $(READY) test-programs ## run the long proofs: two nodes, kills, outages, a browser, whole pipelines
	@python -m pytest -n 2 --dist loadfile -m long

test-bench: $(READY) test-programs ## run every benchmark in its short form, one after the other
	@python -m pytest -m bench

test-programs:
	@for name in flite chromium postgresql; do sh infra/install_system_packages.sh $$name || echo "without $$name, tests that need it are skipped" >&2; done

check: $(READY) ## linting, formatting, types, documentation
	@ruff check .
	@ruff format --check .
	@mypy
	@NO_MKDOCS_2_WARNING=1 mkdocs build --strict

serve: $(READY) ## start Prefect server, worker and MLflow server on loopback; STACK=full: on PostgreSQL and S3, with sign-in
	@$(if $(filter full,$(STACK)),sh infra/install_system_packages.sh postgresql && python -m infra.platform.native,python -m infra.local_servers) start

stop: $(READY) ## end what `make serve` started
	@python -m infra.local_servers stop
	@python -m infra.platform.native stop

tour: demo ## after the demo, a walk through the platform: deployment, registry, server, OpenAI's client, rollback
	@sh infra/install_system_packages.sh postgresql
	@python -m infra.tour

bench: $(READY) ## run the benchmarks and keep their results
	@python -m benchmarks all --save

gpu-check: ## every check that needs a GPU, with the python that has torch with CUDA: make gpu-check PYTHON=python3
	@$(PYTHON) -m benchmarks gpu_check --save

clean: ## remove the tools' caches, and copies of the project (CORPUS=, FAMILY=, overrides); their voices stay in voices/ and the registry
	@rm -rf .pytest_cache .ruff_cache .mypy_cache runs/workspaces
	@find . -path ./$(VENV) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

# An environment that holds a version of the lock keeps it: a CPU build of torch stays. What make says here goes to stderr, because
# the output of `make serve` is to be evaluated.
$(READY): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "error: Python 3.11 or 3.12 is needed; install one, or name it: make PYTHON=<python>" >&2; exit 1; }
	@# By its pip, because a venv that failed for want of it (Debian's package python3-venv) leaves a folder behind.
	@$(VENV)/bin/python -m pip --version >/dev/null 2>&1 || { echo "making the environment $(VENV)" >&2; $(PYTHON) -m venv $(VENV) >&2; }
	@$(VENV)/bin/python -m pip install -q --disable-pip-version-check -r requirements.lock >&2
	@$(VENV)/bin/python -m pip install -q --disable-pip-version-check --no-deps -e . >&2
	@touch $@
