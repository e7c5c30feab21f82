# make demo   set everything up, run the main job on real data, print where the report is
# make check  lint and every test that needs no engine, virtual machine, compiler or browser
# make test   set everything up, run every check and test but those of test-vm-full
# make test-sanitizers  the tests of loadgen and microbench with the sanitizers
# make test-vm       of these only what needs the virtual machine with NVDIMMs
# make test-vm-full  every mode of the playbooks, traps, loss of power in that machine
# make setup  leave the command at .venv/bin/harness
.PHONY: demo check quick test test-sanitizers test-vm test-vm-full setup setup-dev lint unit clean

HARNESS := .venv/bin/harness

demo: setup
	./scripts/demo.sh

setup: .venv/.setup

# What is compiled: a change of it is installed anew.
NATIVE := $(wildcard CMakeLists.txt native/* loadgen/CMakeLists.txt loadgen/*.[ch] \
            loadgen/*/*.[ch] microbench/CMakeLists.txt microbench/*.[ch] microbench/*/*.[ch] \
            iotrace/* launch/* \
            engines/*/loadgen*)

INSTALLED := pyproject.toml scripts/setup.sh $(wildcard engines/*/versions.yml) $(NATIVE)

.venv/.setup: $(INSTALLED)
	./scripts/setup.sh

setup-dev: .venv/.setup-dev

# Includes what `make setup` does, which would compile everything twice.
.venv/.setup-dev: $(INSTALLED)
	./scripts/setup.sh dev

# Lint goes next to the tests, some of which wait.
check: setup-dev
	@$(MAKE) --no-print-directory -j 2 lint quick

quick: setup-dev
	.venv/bin/pytest -q -n 2 -m "not system"

test: setup-dev
	@$(MAKE) --no-print-directory -j 2 lint unit

# Folders whose texts use plain terms.
PLAIN := harness engines reports loadgen microbench native iotrace launch playbooks inventory profiles docs \
         README.md ARCHITECTURE.md CONTRIBUTING.md BENCHMARKS.md CHANGELOG.md

# What ansible-lint reads.
PLAYED := $(shell find playbooks inventory -not -path '*/__pycache__*' -not -path '*/.ansible/*' -not -name .ansible) \
          setup-appdirect.yml ansible.cfg

lint: setup-dev build/.ansible-lint
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy --config-file tests/mypy.ini
	shellcheck .ci/run $$(find scripts playbooks tests -name '*.sh')
	.venv/bin/lint-imports
	.venv/bin/python scripts/check_words.py $(PLAIN)
	.venv/bin/python scripts/check_names.py

# Only after a change of the playbooks or of the tools. Files by name: a role's folder would be a
# playbook to start Ansible for, though the playbooks include it.
build/.ansible-lint: .venv/.setup-dev $(PLAYED)
	PATH="$(CURDIR)/.venv/bin:$$PATH" ansible-lint -c playbooks/.ansible-lint $(filter-out inventory/%,$(filter %.yml,$(PLAYED)))
	@mkdir -p $(@D) && touch $@

# Six at a time on two cores, since many tests wait: five left a quarter of them idle. What goes
# together: tests/conftest.py. What they build is not counted among the two of make.
unit: setup-dev
	MAKEFLAGS= .venv/bin/pytest -q -n 6

test-sanitizers: setup-dev
	NATIVE_SANITIZE=1 .venv/bin/pytest -q tests/microbench tests/loadgen

# The machine's image is built at first use and kept in ~/.cache/tierbench/vm.
test-vm: setup-dev
	.venv/bin/pytest -q --durations=15 tests/vm

test-vm-full: setup-dev
	.venv/bin/pytest -v -n 2 --durations=30 -o norecursedirs= tests/vm

clean:
	rm -rf .venv build .cache .mypy_cache .ruff_cache .pytest_cache
