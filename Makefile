# make setup        make .venv with every package pinned (the other targets do this first)
# make demo         see Stator work; leaves the folder stator-demo to play with
# make test         check, then the tests, on one Python
# make test-all     the tests on every Python >= 3.11 of this machine (.venv-3.11, .venv-3.12, ...)
# make browser      find a browser for the tests of pages, or get one
# make check        lint, format and types
# make coverage     the tests with coverage; fails below FLOOR per cent
# make slowest      the tests, then the 40 slowest of them
# make slow         the long campaigns: crashes, races, long sessions (minutes)
# make real         other agents' own programs, from npm, with a scripted model (minutes)
# make recording    run the commands of docs/images/demo.svg again and draw it
# make bench        Stator and its peers, side by side; writes bench/RESULTS.md (15 minutes)
# make bench-calls  what a recorded call costs, and which systems pay twice when they are killed
# make clean        remove what the other targets made
#
# ARGS is passed on: make test ARGS="tests/model -k fork"

MAKEFLAGS += --no-print-directory
PY := .venv/bin/python
ARGS ?=
# Measured with a seventh of the tests, from every part; raise it to what a full run measures.
FLOOR ?= 77

.PHONY: setup browser demo test test-all check coverage slowest slow real recording bench bench-calls clean

setup:
	@sh scripts/setup

demo: setup
	@$(PY) examples/demo.py $(ARGS)

test: check browser
	@$(PY) -m pytest -q -n 2 --timeout-method=thread $(ARGS)

test-all: setup
	@failed=; \
	for version in $$(sh scripts/pythons | cut -d' ' -f1); do \
		echo "Python $$version"; \
		PYTHON=$$(sh scripts/pythons | sed -n "s/^$$version //p") sh scripts/setup $$version && \
			.venv-$$version/bin/python -m pytest -q -n 2 $(ARGS) || failed="$$failed $$version"; \
	done; \
	[ -z "$$failed" ] || { echo "failed on Python$$failed" >&2; exit 1; }

browser: setup
	@sh scripts/browser >/dev/null

check: setup
	@$(PY) -m ruff check --quiet .
	@$(PY) -m ruff format --check --quiet . || { echo "not formatted: run .venv/bin/ruff format ." >&2; exit 1; }
	@$(PY) -m mypy --no-error-summary
	@$(PY) scripts/shape.py --quiet

# Coverage also starts in child processes, so a test of what a new process imports cannot hold here.
coverage: setup
	@$(PY) -m pytest -q -n 2 --cov --cov-report=term:skip-covered --cov-fail-under=$(FLOOR) \
		--deselect tests/surfaces/test_help.py::test_starting_loads_only_what_is_needed $(ARGS)

slowest: setup
	@$(PY) -m pytest -q -n 2 --durations=40 $(ARGS)

slow: setup
	@$(PY) -m pytest -q -m slow --timeout 3600 $(ARGS)

real: setup
	@$(PY) -m pytest -q -n 2 --dist worksteal -m real tests/real $(ARGS)

recording: setup
	@$(PY) scripts/record_terminal.py

bench:
	@sh scripts/setup bench
	@.venv-bench/bin/python -m bench.run --keep $(ARGS)

bench-calls:
	@sh scripts/setup bench
	@.venv-bench/bin/python -m bench.calls
	@.venv-bench/bin/python -m bench.crash

clean:
	@rm -rf .venv .venv-bench .venv-3.* stator-demo* build dist .coverage* .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find src tests scripts bench examples -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
