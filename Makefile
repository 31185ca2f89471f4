.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
VENV := .venv
BIN := $(VENV)/bin
# Compiled anew by every process that starts, the code takes longer to load than to do most of what tests ask of it.
unexport PYTHONDONTWRITEBYTECODE
UV := VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv --quiet --no-progress pip
# The jar of Paimon's module for Spark 4.1, of which there is no release: tests that use it run where it is.
SLUICE_TEST_PAIMON_SPARK_JAR ?= $(abspath ../shared/jars/paimon-spark-4.1_2.13-2.1-SNAPSHOT.jar)
export SLUICE_TEST_PAIMON_SPARK_JAR

help: ## Show what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' | awk -F'|' '{ printf "  %-12s %s\n", $$1, $$2 }'

run: install ## Install what is missing and start the server on 127.0.0.1:8083
	@exec $(BIN)/sluice serve

install: java $(VENV)/.run web/node_modules/.done ## Install what the server needs into .venv, and Java where that is allowed

java: ## See to it that Java 17 or newer is there
	@scripts/java

pypaimon: $(VENV)/.uv ## Install pypaimon into .venv-pypaimon, for the tests that read our tables with it
	@scripts/client-venv pypaimon

paimon-spark: $(VENV)/.uv ## Install Spark 4.1 into .venv-spark where the jar of Paimon's module is given, for the tests that use it as a client
	@[ ! -e "$(SLUICE_TEST_PAIMON_SPARK_JAR)" ] || scripts/client-venv spark

test: install $(VENV)/.dev pypaimon paimon-spark ## Run the tests
	@$(BIN)/pytest -n 2 --dist loadgroup --durations 25 --durations-min 10 $(PYTEST)

check: $(VENV)/.dev ## Lint, format, types, and generated pages
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/pytest -q -p no:cacheprovider tests/docs/test_options_page.py tests/docs/test_prose.py tests/test_architecture.py

docs: $(VENV)/.dev ## Write the generated pages anew
	@UPDATE_GOLDEN=1 $(BIN)/pytest -q tests/docs/test_options_page.py tests/docs/test_security_page.py

bench: install $(VENV)/.dev pypaimon ## Measure beside plain Spark and pypaimon and write docs/benchmarks.md (BENCH="commits peers": these parts)
	@$(BIN)/python -m benchmarks $(BENCH)

torture: install $(VENV)/.dev pypaimon paimon-spark ## Kill servers under load, for minutes
	@$(BIN)/pytest -m torture --timeout 3600 $(PYTEST)

lock: $(VENV)/.uv ## Pin the newest versions that pyproject.toml allows
	@$(BIN)/uv --quiet pip compile pyproject.toml --extra dev --generate-hashes --universal --python-version 3.11 -o requirements.txt
	@$(BIN)/uv --quiet pip compile pyproject.toml --generate-hashes --universal --python-version 3.11 -c requirements.txt -o requirements-run.txt
	@echo 'pypaimon==2.1.0' | $(BIN)/uv --quiet pip compile - --generate-hashes --universal --python-version 3.11 -o requirements-pypaimon.txt
	@printf 'pyspark==4.1.0\npandas<3\n' | $(BIN)/uv --quiet pip compile - --generate-hashes --universal --python-version 3.11 -o requirements-spark.txt
	@awk '/^uv==/ { p = 1 } p && /^[a-z]/ && !/^uv==/ { exit } p && !/^ *#/' requirements.txt > scripts/requirements-uv.txt

clean: ## Remove what was built and installed here; data stays
	@rm -rf $(VENV) web/node_modules server/pages/static/vendor .mypy_cache .ruff_cache .pytest_cache .hypothesis build *.egg-info

# Stamps: a second make sees at once that nothing is to be done.
$(VENV)/.uv: scripts/venv scripts/requirements-uv.txt
	@scripts/venv $(VENV)
	@touch $@

# What was installed here under the server's earlier name would bring a command of its own.
$(VENV)/.run: $(VENV)/.uv requirements-run.txt pyproject.toml clients/python/pyproject.toml
	@$(UV) install --require-hashes --requirement requirements-run.txt
	@[ ! -d $(VENV)/lib/python3.*/site-packages/sluice-0.1.0.dist-info ] || $(UV) uninstall sluice
	@$(UV) install --no-deps --no-build-isolation --editable . --editable ./clients/python
	@[ -z "$(UV_COMPILE_BYTECODE)" ] || $(BIN)/python -m compileall -q -x '/(\.venv|node_modules)' .
	@touch $@

web/node_modules/.done: $(VENV)/.uv scripts/pages web/package.json web/package-lock.json web/vendor.mjs web/editor.js
	@scripts/pages
	@mkdir -p $(@D) && touch $@

$(VENV)/.dev: $(VENV)/.run requirements.txt
	@$(UV) install --require-hashes --requirement requirements.txt
	@touch $@

.PHONY: help run install java pypaimon paimon-spark test check docs bench torture lock clean
