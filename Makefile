# make help lists the targets. Everything runs in .venv, which `setup` makes.
SHELL := bash
.DEFAULT_GOAL := help
BIN := .venv/bin
export KB_HOME ?= $(CURDIR)/kb_home

.PHONY: help setup demo test soak check bench dev docs lock clean

help: ## List the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

setup: ## Make .venv with everything in it
	@deploy/setup.sh

demo: setup ## Build a knowledge base and answer four questions from it; SOURCE=<url or folder> takes your own
	@$(BIN)/kb demo $(if $(SOURCE),--source "$(SOURCE)")

test: setup ## Run the tests
	@$(BIN)/python -m pytest -n auto

soak: setup ## Run also the tests that take over an hour: 2,000 random histories, kill -9 at every commit point
	@$(BIN)/python -m pytest -n auto -m ""

check: setup ## Format, lint, types, import rules, Dagster definitions
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/dagster definitions validate -w workspace.yaml

bench: setup ## Measure speed and quality; DATA=<folder with retrieval sets> adds scores on them
	@$(BIN)/python -m benchmarks $(if $(DATA),--data "$(DATA)")

dev: setup ## Open the Dagster UI on this home
	@$(BIN)/kb init > /dev/null
	@echo "Dagster UI: http://127.0.0.1:$${PORT:-3000}"
	@DAGSTER_HOME="$(KB_HOME)/dagster" PYTHONWARNINGS='ignore:Function `dev_command` is superseded' \
		env --default-signal=INT,TERM $(BIN)/dagster dev -w workspace.yaml -p $${PORT:-3000}

docs: setup ## Write docs/tables.md and docs/settings.md from the code
	@$(BIN)/python -c "from kb_pipeline import schemas; print(schemas.as_markdown())" > docs/tables.md
	@$(BIN)/python -c "from kb_pipeline.storage import tables; print(tables.as_markdown(), end='')" >> docs/tables.md
	@$(BIN)/python -c "from kb_pipeline import settings; print(settings.as_markdown(), end='')" > docs/settings.md

lock: setup ## Resolve pyproject.toml anew into requirements.lock
	@deploy/lock.sh

clean: ## Remove caches; .venv and KB_HOME stay
	@rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
