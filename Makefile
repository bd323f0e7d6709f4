# `make check` is what CI runs. Every target uses the Python of the active environment.
PYTHON ?= python

.PHONY: check lint format types test verify

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

# What takes more than the tests may: the adversary on its full grid. About ten minutes.
verify:
	$(PYTHON) -m pytest -m verify tests/verify
