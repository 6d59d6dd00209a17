# make demo   the pitch in 20 seconds          make test   lint, types and all tests
# make bench  measured speed, as ratios        make lint   ruff and mypy alone
# make bench-check  what a task costs, counted: statements, calls, instructions
PYTHON ?= python3
BIN := .venv/bin
# The tests start hundreds of short processes: without bytecode each of them would compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test chromium lint coverage bench bench-check bench-peers bench-ui format docs clean simulate hunt soak fuzz-api test-kubernetes

demo: .venv/run
	@$(BIN)/weft demo

test: lint chromium
	$(BIN)/python -m pytest -n 4 --dist worksteal --durations=15

# The browser of tests/ui, installed where that is allowed; elsewhere those tests are skipped, and this says so.
chromium:
	@command -v chromium chromium-browser google-chrome >/dev/null || apt-get install -y --no-install-recommends chromium \
	  >/dev/null 2>&1 || echo "no Chromium here, and it cannot be installed: the page is not tested in a browser"

lint: .venv/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The lines of src/weft that the tests run, in their own processes and in those that they start or fork. What a process
# that is killed has run is lost. `-`: a test of memory or speed may fail while it is measured; `make test` tells.
coverage: .venv/test
	$(BIN)/pip install -q --disable-pip-version-check -r requirements/coverage.lock
	rm -rf .cache/coverage && mkdir -p .cache/coverage
	-PYTHONPATH=$(CURDIR)/tests/coverage_site $(BIN)/coverage run -m pytest -p save_coverage -n 2 --dist worksteal
	$(BIN)/python -W ignore -m coverage combine -q
	$(BIN)/python -W ignore -m coverage report --fail-under=90

bench: .venv/test
	$(BIN)/pip install -q --disable-pip-version-check -r requirements/bench.lock
	$(BIN)/python -m bench

# What does not depend on the machine: statements and round trips of an exchange, calls and instructions of a task.
bench-check: .venv/test
	$(BIN)/python -m pytest -q -n 2 tests/store/test_statement_counts.py tests/store/test_instruction_counts.py

# The browser's page with 10,000 tasks: layout, first picture, frames a second.
bench-ui: .venv/test
	$(BIN)/python -m bench.browser_page

bench-peers: .venv/test
	$(BIN)/python -m bench.peers_postgres

# One seed of the simulation, told as a story: make simulate SEED=17
simulate: .venv/test
	$(BIN)/python -m tests.simulation $(SEED)

# Seeds that nobody has played yet; those that fail are printed: make hunt FIRST=710000 END=730000 PROCESSES=2
FIRST ?= 0
END ?= 1000
PROCESSES ?= 2
hunt: .venv/test
	$(BIN)/python -m tests.simulation $(FIRST) $(END) --processes $(PROCESSES)

# Requests of all kinds against the API, on both databases, with all checks of Schemathesis.
EXAMPLES ?= 100
fuzz-api: .venv/test
	WEFT_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest tests/api/test_description.py -k schemathesis --timeout 3600

# What takes too long for every change: a gigabyte of output from a container, and seeds of the simulation.
soak: .venv/test
	WEFT_OUTPUT_BYTES=1073741824 $(BIN)/python -m pytest tests/executors/container/test_output.py -k much
	$(BIN)/python -m tests.simulation 1000 3000 --processes $(PROCESSES)

# The Kubernetes executor on a real kube-apiserver, scheduler and Job controller, which Go builds once (some minutes).
# Needs etcd and openssl; a named skip where something is missing. One test: make test-kubernetes ARGS=tests/…
test-kubernetes: .venv/test
	$(BIN)/python -m tests.kubernetes_cluster $(ARGS)

format: .venv/test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Rewrites the generated parts of docs/reference (a test compares them with the code).
docs: .venv/test
	$(BIN)/python -m tests.docs

.venv/run: pyproject.toml requirements/run.lock
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q --disable-pip-version-check -r requirements/run.lock
	$(BIN)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

.venv/test: .venv/run requirements/test.lock
	$(BIN)/pip install -q --disable-pip-version-check -r requirements/test.lock
	@touch $@

clean:
	rm -rf .venv .mypy_cache .ruff_cache
