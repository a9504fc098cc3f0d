# Everything here needs make and Python 3.11 or newer. The rest is installed
# into .venv the first time it is needed, and again when pyproject.toml changes.

PYTHON ?= python3
VERSIONS = 3.11 3.12 3.13

# What `demo` replays; what else `test` and `bench` are told; where `test` runs.
FILE = examples/travel_desk.jsonl
ARGS =
ONLY =

# The interpreter of version $(1) that can make environments: $(PYTHON), one on
# PATH, or one of pyenv's, whose commands on PATH fail while not switched on.
interpreter = $(shell \
	for each in $(PYTHON) python$(1) \
		"$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/$(1).*/bin/python; do \
		"$$each" -c 'import ensurepip, sys, venv; sys.exit("%d.%d" % \
			sys.version_info[:2] != "$(1)" or print(sys.executable))' \
			2>/dev/null && break; \
	done)

# The version to use where one is enough: that of $(PYTHON) unless it is too old.
version := $(or \
	$(shell $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) or \
		print("%d.%d" % sys.version_info[:2]))' 2>/dev/null), \
	$(firstword $(foreach each,3.13 3.12 3.11,\
		$(if $(call interpreter,$(each)),$(each)))), \
	3.11)

# The versions to test: those asked for, or all of ours that are here.
asked = $(or $(ONLY),$(sort $(VERSIONS) $(version)))
found = $(strip $(foreach each,$(asked),$(if $(call interpreter,$(each)),$(each))))
missing = $(filter-out $(found),$(asked))
# The one on which laws are held against all examples; a quarter on the others.
mostly = $(firstword $(filter $(version),$(found)) $(found))

# Makes the environment of a stamp with Python $(1) and installs $(2) there.
define install
	$(if $(call interpreter,$(1)),,$(error Found no Python $(1) with the module \
	venv. Install Python 3.11 or newer (on Debian and Ubuntu: apt install \
	python3 python3-venv), or name yours (make PYTHON=python3.12)))
	@echo 'Setting up $(@D) ...' >&2
	@$(@D)/bin/python -m pip --version >/dev/null 2>&1 || \
		$(call interpreter,$(1)) -m venv --clear $(@D)
	@$(@D)/bin/python -m pip install -qq 'pip>=25.1' # the first with --group
	@# Most of what comes with it is never imported, so it is compiled when it is.
	@$(@D)/bin/python -m pip install -qq --no-compile $(2)
	@touch $@
endef

.PHONY: help demo test stress docs-test lint bench clean
.NOTPARALLEL: # targets share environments

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' \
		$(MAKEFILE_LIST)

demo: .venv/$(version)/.demo ## replay a conversation (another one: FILE=talk.jsonl)
	@.venv/$(version)/bin/conversation-state replay "$(FILE)"

test: ## the tests on every Python found (ONLY=3.12, ARGS='-k fork')
	$(if $(found),,$(error Found none of Python $(asked) with the module venv))
	@echo 'Python found: $(found)$(if $(missing),; not found: $(missing))'
	@failed=; for each in $(found); do \
		echo; echo "Python $$each"; \
		$(MAKE) --silent .venv/$$each/.test && \
		.venv/$$each/bin/python -m pytest --numprocesses auto --maxprocesses 4 \
			--dist loadscope \
			$$([ $$each = $(mostly) ] || echo --hypothesis-profile=brief) \
			$(ARGS) || failed="$$failed $$each"; \
	done; \
	test -z "$$failed" || { echo "Failed on Python$$failed" >&2; exit 1; }

stress: .venv/$(version)/.test ## stores killed and contended, for minutes (ARGS='--seconds 60')
	@.venv/$(version)/bin/python -m tests.store.stress $(ARGS)

docs-test: .venv/$(version)/.test ## the examples in README, docs and docstrings
	@.venv/$(version)/bin/python -m pytest $(ARGS) \
		$(wildcard README.md docs) conversation_state

lint: .venv/lint/.lint ## style, format and types
	.venv/lint/bin/python -m ruff check
	.venv/lint/bin/python -m ruff format --check
	.venv/lint/bin/python -m mypy \
		$(wildcard conftest.py conversation_state tests benchmarks typing_tests/*.py examples/*.py)
	.venv/lint/bin/python -m pyright --pythonpath .venv/lint/bin/python

bench: .venv/bench/.bench ## ours beside the peers' (one of them: ARGS=join)
	@.venv/bench/bin/python -m benchmarks $(ARGS)

clean: ## remove what the others made
	rm -rf .venv .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One environment per Python. The linters' and the peers' packages have their
# own, lest the tests pass because of them.
.venv/%/.demo: pyproject.toml
	$(call install,$*,--editable '.[cli]')

.venv/%/.test: pyproject.toml
	$(call install,$*,--editable '.[all]' --group test)

.venv/lint/.lint: pyproject.toml
	$(call install,$(version),--editable '.[all]' --group lint)

.venv/bench/.bench: pyproject.toml
	$(call install,$(version),--editable . --group bench)
