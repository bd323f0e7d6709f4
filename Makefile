# `make check` is what CI runs. Every target uses the Python of the active environment.
PYTHON ?= python

.PHONY: check lint format types test

check: lint types test

lint:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .

format:
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

types:
	$(PYTHON) -m mypy

test:
	$(PYTHON) -m pytest --durations=20
