# Two commands set specq up: `make demo` and `make test`. Everything lives in .venv and the user's cache.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check fetch clean

demo: fetch
	$(BIN)/specq run experiments/quickstart.toml

# Two workers of one thread each: more threads than cores wait for each other longer than they work. Each takes half
# of the files in their order, so that what a file's tests share is made once, and helps the other when it is through.
test: fetch
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

check: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest tests/test_imports.py tests/test_files.py

fetch: .venv/ready
	$(BIN)/specq models fetch

.venv/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("specq needs Python 3.11 or newer, this is %d.%d: name one with make PYTHON=python3.12" % sys.version_info[:2])'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch .venv/ready

clean:
	rm -rf .venv build dist .pytest_cache .ruff_cache .mypy_cache src/specq.egg-info
