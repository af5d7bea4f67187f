# Everything runs in .venv, which is created when it is missing, and updated when setup.cfg or the
# sources of the compiled parts have changed.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed

.PHONY: help demo test check test-unit coverage test-integration test-chaos chaos soak test-source test-servers test-spark test-kubernetes test-cluster lint docs bench bench-peers measures install hooks clean picture sbom

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 20

demo: $(INSTALLED) ## See it work: real servers, rows that change, equal copies at the end
	$(BIN)/cdcbus demo

test: $(INSTALLED) ## All tests that need no root and no Docker
	$(BIN)/pytest

test-unit: $(INSTALLED) ## The tests that need no servers: seconds
	$(BIN)/pytest tests/unit

coverage: $(INSTALLED) ## The same, with the share of lines that they run, which must not fall
	$(BIN)/pytest tests/unit -m "not hypothesis" --cov --cov-report=term:skip-covered
# Property tests run the same lines hundreds of times, and counting them would double what they take.
	$(BIN)/pytest -q tests/unit -m hypothesis

SINCE ?= $(shell git rev-parse --verify --quiet origin/main >/dev/null && echo origin/main || echo main)
check: lint ## What a change needs before it is pushed: style, tests without servers, and those on servers of the rooms that it touches
	$(BIN)/python -m tests.changed --since $(SINCE)

test-integration: $(INSTALLED) ## The tests on real servers
	$(BIN)/pytest -m integration

test-chaos: $(INSTALLED) ## The tests that kill processes at random moments
	$(BIN)/pytest -m chaos

CHAOS_MINUTES ?= 60
chaos: $(INSTALLED) ## Faults of every part under every load: a table, artifacts/chaos.md; then twenty kills of each kind, and lost parts of a Spark cluster
	mkdir -p artifacts
	$(BIN)/python -m tests.matrix --minutes $(CHAOS_MINUTES) --json artifacts/chaos.json --markdown artifacts/chaos.md
	CDCBUS_TEST_KILLS=20 $(BIN)/pytest -m chaos
	$(BIN)/pytest tests/cluster

HOURS ?= 2
soak: $(INSTALLED) ## Hours under load with a kill each minute: nothing grows; the curves are in artifacts/soak.svg
	mkdir -p artifacts
	$(BIN)/python -m tests.soak --hours $(HOURS) --json artifacts/soak.json --picture artifacts/soak.svg

test-source: $(INSTALLED) ## The tests that read a binlog, on the server named by CDCBUS_TEST_SOURCE
	$(BIN)/pytest -m source tests/integration

test-servers: $(INSTALLED) ## The tests that read a binlog, on each available release of MySQL and MariaDB
	$(BIN)/python -m tests.servers

SPARK ?= 4.2.0
test-spark: ## The tests of the consumer with another release of Spark: make test-spark SPARK=4.2.0
	$(PYTHON) -m venv .venv-spark
	.venv-spark/bin/pip install --quiet --editable '.[test]'
	.venv-spark/bin/pip install --quiet --no-deps pyspark==$(SPARK)
	.venv-spark/bin/cdcbus prepare
	.venv-spark/bin/pytest tests/unit/consumer tests/integration/consumer tests/chaos/test_gears.py

test-kubernetes: $(INSTALLED) ## The tests on a real Kubernetes, built with Go; needs root, containerd and runc
	$(BIN)/pytest tests/kubernetes

test-cluster: $(INSTALLED) ## The tests on clusters of Spark, Kafka and ZooKeeper that lose their parts
	$(BIN)/pytest tests/cluster

docs: $(INSTALLED) ## The documentation as a site, with every link checked: artifacts/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "open artifacts/site/index.html, or: $(BIN)/mkdocs serve"

SBOM := artifacts/sbom-environment
sbom: $(INSTALLED) ## A bill of the packages that cdcbus brings, as CycloneDX: artifacts/cdcbus.cdx.json
	rm -rf $(SBOM)
	$(PYTHON) -m venv --without-pip $(SBOM)
	$(BIN)/pip --python $(SBOM)/bin/python install --quiet .
	$(BIN)/cyclonedx-py environment --output-reproducible --output-file artifacts/cdcbus.cdx.json $(SBOM)/bin/python
	rm -rf $(SBOM)

RUNS ?= 5
bench: $(INSTALLED) ## All benchmarks, each beside its baseline: a table, and artifacts/bench.json
	mkdir -p artifacts
	$(BIN)/python -m tests.bench --runs $(RUNS) --json artifacts/bench.json

bench-peers: $(INSTALLED) ## The same work through Debezium's connectors, from Maven Central: artifacts/peers.json and peers.svg
	mkdir -p artifacts
	$(BIN)/python -m tests.bench.peers --runs $(RUNS) --json artifacts/peers.json --picture artifacts/peers.svg

lint: $(INSTALLED) ## Types and style
	$(BIN)/mypy -p cdcbus -p tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell

picture: $(INSTALLED) ## The README's moving picture, of a real demo: docs/demo.svg; needs tmux
	$(BIN)/python -m tests.pictures

measures: $(INSTALLED) ## Files, imports between rooms, line lengths and more, folder by folder
	$(BIN)/python tests/code_measures.py

install: $(INSTALLED) ## Make .venv with cdcbus and its tools

$(INSTALLED): setup.cfg pyproject.toml setup.py producer/publish/native.c producer/snapshot/images.c plugins/converters/arrow/cut.c plugins/converters/protobuf/canal.proto
	@$(PYTHON) -c 'import sys; sys.exit("cdcbus needs Python 3.11 or newer; this is %d.%d. Name another: make PYTHON=python3.12" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	@echo 'installing cdcbus, its dependencies and the tools into .venv: some minutes and 1 GB at first, seconds later'
	$(BIN)/pip install --editable '.[test]'
	@touch $@

hooks: ## Have git check the subjects of commits
	git config core.hooksPath .githooks

clean: ## Remove everything that was built in this folder
	rm -rf .venv build dist *.egg-info producer/publish/_native*.so producer/snapshot/_images*.so plugins/converters/arrow/_cut*.so plugins/converters/protobuf/canal.desc .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage artifacts
