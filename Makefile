# OpenSRE control plane. `make help` lists the targets.
# Needs make, a POSIX shell and Python 3.11 to 3.14. Variables pass through the environment or the command line:
#   PYTHON           the interpreter to build .venv with (default: the first suitable one on PATH)
#   HOST, PORT       where `make dev` serves (default 127.0.0.1 and 8000)
#   OPENSRE_DATA_DIR the database and files of `make dev` (default ./var)
#   ARGS             more arguments for pytest in `make test`, for the benchmark in `make bench`
.POSIX:
.PHONY: help setup dev test faults lint bench clean

VENV = .venv
RUN = $(VENV)/bin/python
# -qq: errors only. Modules are compiled when first used: compiling all of them takes longer than the rest.
PIP = $(RUN) -m pip --disable-pip-version-check -qq --no-input

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-6s  %s\n", $$1, $$2 }' Makefile

setup: $(VENV)/.installed-dev ## install everything, development tools included, and prepare the database
	@$(RUN) manage.py migrate --verbosity 0

dev: $(VENV)/.installed ## set up and run everything on http://127.0.0.1:8000 (HOST, PORT, OPENSRE_DATA_DIR)
	@$(RUN) manage.py dev

test: $(VENV)/.installed-dev ## run every test: SQLite, PostgreSQL where it answers, browser where there is one
	@$(RUN) -m tests.run $(ARGS)

faults: $(VENV)/.installed-dev ## kill, stop and fill what can be; a PostgreSQL and a Redis of its own, some minutes
	@FAULTS=full TEST_DATABASE_URL= OPENSRE_MODE=local $(RUN) -m pytest -m faults --durations=0 tests/faults $(ARGS)

lint: $(VENV)/.installed-dev ## check style, types, layers, migrations and settings
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(RUN) -c "from importlinter.cli import lint_imports_command; lint_imports_command()"
	DJANGO_SETTINGS_MODULE=tests.settings $(RUN) manage.py makemigrations --check --dry-run
	DJANGO_SETTINGS_MODULE=tests.settings $(RUN) manage.py check

bench: $(VENV)/.installed-dev ## measure streams, the event log, the configuration in a tree of 10,000 teams, and 100,000 tokens
	@$(RUN) manage.py bench stream $(ARGS)
	@$(RUN) manage.py bench load $(ARGS)
	@$(RUN) manage.py bench append $(ARGS)
	@$(RUN) manage.py bench config $(ARGS)
	@$(RUN) manage.py bench tree $(ARGS)
	@$(RUN) manage.py bench tokens $(ARGS)

clean: ## remove .venv and caches; the data in ./var stays
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A requirements file newer than its stamp is installed again; nothing else is looked up, so a second start is fast.
$(VENV)/.installed: requirements.txt $(RUN)
	@echo "Installing what the control plane runs on ..."
	@$(PIP) install --no-compile -r requirements.txt
	@touch $@

$(VENV)/.installed-dev: requirements-dev.txt $(VENV)/.installed
	@echo "Installing the development tools ..."
	@$(PIP) install --no-compile -r requirements-dev.txt
	@touch $@

$(RUN):
	@sh scripts/make-venv.sh $(VENV)
