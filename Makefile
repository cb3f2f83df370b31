# make setup   an environment in .venv with everything pinned (the others do this first)
# make demo    see it work
# make test    check, then the tests
# make check   lint, format and types
# make slow    the campaigns: crashes, races, long sessions (minutes)
# make real    other agents' own programs, from npm, with a scripted model (minutes)
# make bench   ours and the peers, side by side; ARGS="..." is passed on
# make bench-calls   what a recorded call costs, and who pays twice when it is killed
# make clean   remove what the others made

MAKEFLAGS += --no-print-directory
PY := .venv/bin/python
ARGS ?=

.PHONY: setup demo test check slow real bench bench-calls clean

setup:
	@sh scripts/setup

demo: setup
	@$(PY) examples/demo.py $(ARGS)

test: check
	@$(PY) -m pytest -q -n 2 $(ARGS)

check: setup
	@$(PY) -m ruff check --quiet .
	@$(PY) -m ruff format --check --quiet . || { echo "not formatted: run .venv/bin/ruff format ." >&2; exit 1; }
	@$(PY) -m mypy --no-error-summary
	@$(PY) scripts/shape.py --quiet

slow: setup
	@$(PY) -m pytest -q -m slow --timeout 3600 $(ARGS)

real: setup
	@$(PY) -m pytest -q -m real tests/real $(ARGS)

bench: bench-calls
	@.venv-bench/bin/python -m bench.run $(ARGS)

bench-calls:
	@sh scripts/setup bench
	@.venv-bench/bin/python -m bench.calls
	@.venv-bench/bin/python -m bench.crash

clean:
	@rm -rf .venv .venv-bench build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find src tests scripts bench examples -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
