# Everything a newcomer or CI runs. `make help` lists the targets; the work is done by small scripts in scripts/.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo test test-long test-kills fuzz soak soak-assignors lint bench bench-full bench-scale kafka broker prometheus wheel release check-deploy test-versions site lock clean distclean

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
KAFKA := .kafka/.ready
OLDEST := .oldest/.ready
LAKE := .lake/.ready
PROMETHEUS := .prometheus/.ready
PYTEST := $(BIN)/pytest
SOAK := long
FUZZ := .fuzz/.ready
SECONDS_EACH := 60
RANDOM_GROUPS := 20000
PORT ?= 9092
RECORDS := 1000000 5000000 20000000

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) ## audit the recorded cluster in examples/shop; the report lands in out/demo
	@scripts/demo.sh

test: lint $(KAFKA) $(OLDEST) ## what every change must pass: lint, types, import contracts, unit, property, Spark, broker and browser tests
	@scripts/find_browser.sh --install > /dev/null
	@# Side by side: live groups mostly wait; what shares an audit or a Spark session stays on one worker (tests/conftest.py).
	@JAVA_HOME="$$(scripts/find_java.sh --install --jdk)" $(PYTEST) -n 4 --dist loadscope

test-long: $(READY) $(KAFKA) $(OLDEST) $(LAKE) $(PROMETHEUS) ## all tests but those of soak and test-kills, with many times the generated cases, a Spark cluster, Connect, catalogs, Prometheus (an hour or more; the seed of a failure is printed)
	@scripts/find_browser.sh --install > /dev/null
	@JAVA_HOME="$$(scripts/find_java.sh --install --jdk)" COUNTERPOISE_PROFILE=long $(PYTEST) -n 4 --dist loadscope -m "not soak and not kills"

test-kills: $(READY) $(KAFKA) $(LAKE) ## audits, updates, followers and captures that are killed, or have no disk or memory left, on a disk and on an object store (an hour)
	@JAVA_HOME="$$(scripts/find_java.sh --install --jdk)" COUNTERPOISE_PROFILE=long $(PYTEST) -n 4 --dist loadscope -m kills

test-versions: $(READY) ## the core's tests on Python 3.12 to 3.14 with the newest packages, and on 3.11 with the oldest that are allowed (interpreters from PATH, else from Maven Central)
	@scripts/test_versions.sh

fuzz: $(READY) $(FUZZ) ## every reader of text or bytes, driven by coverage from a small corpus, a minute each (SECONDS_EACH=600: longer)
	@PYTHONPATH=.fuzz $(BIN)/python scripts/fuzz.py --seconds $(SECONDS_EACH)

soak: $(READY) $(KAFKA) $(OLDEST) ## live groups of every kind of member on a real broker, under every fault, and the examples for ten minutes each (an hour; SOAK=dev: the part that make test runs)
	@JAVA_HOME="$$(scripts/find_java.sh --install --jdk)" COUNTERPOISE_PROFILE=$(SOAK) $(PYTEST) tests/clients -m soak -n 2

soak-assignors: $(READY) ## every strategy on 20,000 random groups and on the largest that are allowed: all laws (half an hour; RANDOM_GROUPS=200000: more)
	@$(BIN)/python scripts/soak_assignors.py --groups $(RANDOM_GROUPS)

lint: $(READY) ## style, types, import contracts, spelling, and the file map in ARCHITECTURE.md
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo --no-cache
	@$(BIN)/python scripts/file_map.py --check
	@$(BIN)/python scripts/spelling.py

bench: $(READY) ## time the decoder, and the assignors beside their peers on small groups, in one run (a quarter of an hour)
	@$(BIN)/python -m benchmarks.decode_kernel
	@$(BIN)/python -m benchmarks.lag --quick
	@JAVA_HOME="$$(scripts/find_java.sh --install --jdk)" $(BIN)/python -m benchmarks.assignors --quick

bench-full: $(READY) ## measure the whole grid and growth with size again beside all peers, and write docs/benchmarks.md and its data (an hour)
	@JAVA_HOME="$$(scripts/find_java.sh --install --jdk)" $(BIN)/python -m benchmarks.assignors --json out/grid.json
	@JAVA_HOME="$$(scripts/find_java.sh --install --jdk)" $(BIN)/python -m benchmarks.assignors --sweep --peers java-sticky broker-uniform franz-go --json out/sweep.json
	@cp out/grid.json out/sweep.json benchmarks/results/
	@$(BIN)/python -m benchmarks.assignors --from benchmarks/results/{grid,sweep}.json --page docs/benchmarks.md > /dev/null

bench-scale: $(READY) $(KAFKA) ## the whole audit on made-up fleets of 1, 5 and 20 million records (RECORDS="100000 200000": of other sizes): time, CPU time, memory (docs/scale.md)
	@JAVA_HOME="$$(scripts/find_java.sh --install --jdk)" $(BIN)/python -m benchmarks.audit_scale --records $(RECORDS) --json out/scale.json

kafka: $(KAFKA) ## fetch the jars of the Kafka broker that tests start

broker: $(READY) $(KAFKA) ## a Kafka broker at localhost:9092 (PORT=9192: elsewhere) for the tutorials, until Ctrl-C
	@JAVA_HOME="$$(scripts/find_java.sh --install)" PYTHONPATH=. $(BIN)/python scripts/broker.py $(PORT)

prometheus: $(PROMETHEUS) ## build Prometheus and promtool, which the test of examples/monitoring runs (needs Go)

wheel: $(READY) ## build the wheel and try it in a fresh environment away from the sources
	@scripts/try_wheel.sh

release: wheel ## the wheel, a software bill of materials in dist/, and an audit of all locked packages (needs the network)
	@scripts/release.sh

check-deploy: $(READY) ## the files in examples/deploy and the workflows: hadolint, schemas of Kubernetes, Databricks and GitHub, systemd-analyze
	@scripts/check_deploy.sh

site: $(READY) ## the documentation as a site in out/site, which needs no web server and no network (packages of its own in .site)
	@scripts/site.sh

lock: $(READY) ## renew requirements.lock from pyproject.toml; versions change only where they must (rm it first to renew all)
	@scripts/lock.sh

clean: ## remove what the other targets made, except the environment and the broker's jars
	rm -rf out build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis spark-warehouse metastore_db derby.log
	find src tests benchmarks scripts -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## remove those too
	rm -rf $(VENV) .kafka .oldest .lake .prometheus .fuzz .release .deploy .pythons .site

$(READY): requirements.lock pyproject.toml
	@scripts/make_env.sh $(VENV)

$(KAFKA): tests/kafka/pom.xml
	@scripts/fetch_kafka.sh .kafka

$(OLDEST): $(READY) $(wildcard tests/clients/oldest/*.txt)
	@scripts/fetch_oldest.sh .oldest

$(PROMETHEUS): scripts/fetch_prometheus.sh
	@scripts/fetch_prometheus.sh .prometheus

$(FUZZ): $(READY) tests/fuzz/atheris.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --target .fuzz -r tests/fuzz/atheris.txt
	@touch $@

$(LAKE): $(READY) $(wildcard tests/pipeline/lake/*)
	@scripts/fetch_lake.sh .lake
