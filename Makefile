# make demo   the pitch in 20 seconds          make test   lint, types and all tests
# make bench  measured speed, as ratios        make lint   ruff, mypy and tsc alone
# make bench-check  what a task costs, counted: statements, calls, instructions
PYTHON ?= python3
BIN := .venv/bin
# The tests start hundreds of short processes: without bytecode each of them would compile everything anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-fast bytecode chromium etcd podman lint coverage bench bench-check bench-peers bench-ui format docs screenshots clean simulate hunt soak fuzz-api proto test-kubernetes

demo: .venv/run
	@$(BIN)/weft demo

test: .venv/test
	@$(MAKE) --no-print-directory -j3 lint bytecode podman
	$(BIN)/python -m pytest -n 4 --dist worksteal --durations=15

# What most changes need first, without engines, browsers, servers of PostgreSQL that fail, and clusters.
FAST := architecture core definitions expressions triggers store operations client sdk cli
test-fast: lint
	$(BIN)/python -m pytest -n 4 --dist worksteal $(FAST:%=tests/%)

# Of the tests, with their assertions rewritten, while mypy has the other core: else each worker of pytest compiles all.
bytecode: .venv/test
	@$(BIN)/python -m pytest --collect-only >/dev/null || true

# What tests run on, installed where that is allowed; elsewhere those tests are skipped, and this says so. One after
# the other: apt-get waits for nobody. Its lists may be old, or missing on a new machine.
install = apt-get install -y --no-install-recommends $(1) >/dev/null 2>&1 \
	  || (apt-get update && apt-get install -y --no-install-recommends $(1)) >/dev/null 2>&1
chromium:
	@command -v chromium chromium-browser google-chrome >/dev/null || $(call install,chromium) \
	  || echo "no Chromium here, and it cannot be installed: the page is not tested in a browser"

etcd: chromium
	@command -v etcd >/dev/null || $(call install,etcd-server) \
	  || echo "no etcd here, and it cannot be installed: the replicated log is not tested"

podman: etcd
	@(command -v podman && command -v runc && command -v busybox) >/dev/null \
	  || $(call install,podman runc busybox-static) \
	  || echo "no Podman here, and it cannot be installed: containers are not tested on a real engine"

lint: .venv/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m tests.ui.tools

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
	WEFT_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest tests/api/test_description.py --timeout 3600

# What takes too long for every change: a gigabyte of output from a container, a minute of changes in the page,
# 20 kills around a replicated log of five nodes, seeds.
soak: .venv/test
	WEFT_OUTPUT_BYTES=1073741824 $(BIN)/python -m pytest tests/executors/container/test_output.py -k much
	WEFT_SOAK=1 $(BIN)/python -m pytest -s tests/ui/test_load.py
	WEFT_KILLS=20 WEFT_NODES=5 WEFT_SEEDS=400 $(BIN)/python -m pytest tests/replicated/test_faults.py tests/replicated/test_simulation.py -k "kills or tables" --timeout 1200
	WEFT_SOAK=1 $(BIN)/python -m pytest tests/replicated/test_cluster.py
	$(BIN)/python -m tests.simulation 1000 3000 --processes $(PROCESSES)
	$(BIN)/python -m tests.simulation 20000000 20000400 --processes $(PROCESSES)

# The Kubernetes executor on a real kube-apiserver, scheduler and Job controller, which Go builds once (some minutes).
# Needs etcd and openssl; a named skip where something is missing. One test: make test-kubernetes ARGS=tests/…
test-kubernetes: .venv/test
	$(BIN)/python -m tests.kubernetes_cluster $(ARGS)

format: .venv/test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The pictures of the README, from a real run in a real browser.
screenshots: .venv/test chromium
	$(BIN)/python -m tests.ui.screenshots

# Rewrites the generated parts of docs/reference (a test compares them with the code).
docs: .venv/test
	$(BIN)/python -m tests.docs

# Rewrites the code that is generated from weft.proto (a test compares them).
proto: .venv/test
	$(BIN)/pip install -q --disable-pip-version-check -r requirements/proto.lock
	$(BIN)/python -m grpc_tools.protoc -Isrc --python_out=src --pyi_out=src --grpc_python_out=src src/weft/grpc_api/weft.proto

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
