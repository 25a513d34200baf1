# make demo      set up .venv and run the double-buffered matmul (GPU if there is one, else the simulator)
# make test      ruff, mypy, and the tests that need no GPU, but for the few that take longest (tests/longest.py); those
#                that need Chromium, LaTeX or torch are skipped where these are absent, and the last lines say so
#                (TEST_REQUIRE=browser,latex,torch,pyodide: an error)
# make test-all  every test that needs no GPU; CI runs a twentieth of those that take long with each commit
# make check     ruff, mypy, and the tests that take no tenth of a second and are not marked slow: what to run before each
#                commit
# make gpu-test  the tests that need a GPU, GPU_JOBS at a time; then, one by one, those that time it
# make bench     the benchmarks that this machine can run
# make pictures  draw docs/images and write docs/checker.md and the steps of docs/attention.md anew
# make docs      serve the site of docs/ at http://127.0.0.1:8000, built anew when a page changes
# make site      build it into site/; a warning is an error
# make browser  fetch Pyodide into build/pyodide, so that the site has its own and the tests of the browser run; needs npm
# make notebooks write the chapters of docs/learn as notebooks into build/notebooks
# make wheel     build dist/moye-*.whl
# make lint      ruff and mypy alone
# make clean     remove everything that make made

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
DEMO   ?= examples/09_matmul_double_buffered.py
JOBS   ?= 2
GPU_JOBS ?= 15
# A stamp is older than pyproject.toml exactly when the dependencies may have changed.
DEMO_STAMP := $(VENV)/.stamp-demo
TEST_STAMP := $(VENV)/.stamp-test
SITE_STAMP := $(VENV)/.stamp-site
# GPU machines usually bring their own torch: use the python that has it, else the venv's.
ifneq (,$(filter gpu-test bench,$(MAKECMDGOALS)))
GPU_PY := $(shell $(PYTHON) -c 'import torch' 2>/dev/null && echo $(PYTHON) || echo $(PY))
endif

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Some 40 tests start a Python of their own: each would compile every module of moye again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo check test test-all gpu-test bench pictures docs site browser notebooks wheel lint clean
.DEFAULT_GOAL := test

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "moye needs Python 3.11 or newer: make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "$(PYTHON) has no venv module: install it first (on Debian: apt install python3-venv)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(DEMO_STAMP): pyproject.toml | $(PY)
	$(PY) -m pip install --quiet -e '.[cuda,cli]'
	@touch $@

$(TEST_STAMP): pyproject.toml | $(PY)
	$(PY) -m pip install --quiet -e '.[test]'
	@touch $@ $(DEMO_STAMP)

$(SITE_STAMP): pyproject.toml | $(PY)
	$(PY) -m pip install --quiet -e '.[docs]'
	@touch $@

demo: $(DEMO_STAMP)
	$(PY) $(DEMO)

lint: $(TEST_STAMP)
	$(PY) -m ruff check .
	$(PY) -m mypy

# With worksteal a worker goes through whole files, so that what they share is traced and compiled once.
check: lint
	$(PY) -m pytest -q -n $(JOBS) --dist worksteal -m "not slow and not long" --ignore=tests/gpu tests

test: lint
	$(PY) -m pytest -q -n $(JOBS) --dist worksteal -m "not longest" --ignore=tests/gpu tests

test-all: lint
	$(PY) -m pytest -q -n $(JOBS) --dist worksteal --ignore=tests/gpu tests

ifeq ($(GPU_PY),$(PY))
gpu-test bench: $(TEST_STAMP)
endif

gpu-test:
	@status=0; \
	PYTHONPATH=src $(GPU_PY) -m pytest -q -n $(GPU_JOBS) --dist worksteal -m "not alone" tests/gpu || status=1; \
	PYTHONPATH=src $(GPU_PY) -m pytest -q -m alone tests/gpu || status=1; \
	exit $$status

bench:
	PYTHONPATH=src $(GPU_PY) benchmarks/run.py

pictures: $(DEMO_STAMP)
	$(PY) docs/make_pictures.py
	$(PY) docs/make_architecture.py
	$(PY) docs/make_checker.py
	$(PY) docs/make_attention.py

docs: $(SITE_STAMP)
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs serve

site: $(SITE_STAMP)
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build

# NumPy for Pyodide is not in npm: pages load it from Pyodide's publisher where it could not be fetched.
browser: | $(PY)
	$(PY) docs/site_browser.py

notebooks: | $(PY)
	$(PY) docs/make_learn.py --notebooks build/notebooks

wheel: | $(PY)
	$(PY) -m pip wheel --quiet --no-deps --wheel-dir dist .

clean:
	rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
