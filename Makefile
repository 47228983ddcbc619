# Two commands do everything on a fresh machine with Python 3.11: `make evolve` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# Linux: the default torch wheel brings gigabytes of CUDA libraries. To install the CPU build instead, put the
# options that pytorch.org's selector shows for "CPU" here.
TORCH_PIP_ARGS ?=
EVOLVE_ARGS    ?=
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/pip install -q

.PHONY: evolve test lint format setup clean

evolve: $(VENV)/.ready
	$(BIN)/meta-agent evolve --domain swe $(EVOLVE_ARGS)

setup: $(VENV)/.ready

test: $(VENV)/.dev lint
	$(BIN)/pytest $(PYTEST_ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# torch first: what depends on it then takes the build that is already there.
$(VENV)/.ready: pyproject.toml constraints.txt
	@echo "setting up $(VENV) (once; about 2 minutes)" >&2
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) $(TORCH_PIP_ARGS) -c constraints.txt torch
	@$(PIP) -c constraints.txt -e '.[train]'
	@touch $@

$(VENV)/.dev: $(VENV)/.ready
	@$(PIP) -c constraints.txt -e '.[train,dev]'
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info meta-agent-workspace
