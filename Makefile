# Everything a newcomer needs: `make demo` shows Conductor at work, `make test` proves it.
PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
# The demo and the checks keep to themselves, whatever the shell points a lab's site at: of what is set for that, they see
# only what docs/settings.md lists for them.
OTHERS := $(filter-out CONDUCTOR_PORT CONDUCTOR_REALDATA,$(shell env | sed -n 's/^\(CONDUCTOR_[A-Z_]*\)=.*/\1/p'))
LOCAL  := env -u DATABASE_URL -u DATABASE_URL_FILE $(addprefix -u ,$(OTHERS))
# Byte code makes every start two to three times faster; keep it even where the shell says otherwise.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo demo-stop demo-check real-check test test-fast test-postgresql test-faults bench lint services clean

help: ## what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

$(VENV)/run.ok: requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Conductor needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Name another: make PYTHON=python3.11 ..."; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "This Python has no venv module. On Debian and Ubuntu: apt-get install python3-venv (or python3.11-venv)."; exit 1; }
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@echo "Installing what Conductor runs on (a few minutes the first time) ..."
	@$(PY) -m pip install --quiet --disable-pip-version-check -r requirements.txt
	@$(PY) -m compileall -q $(VENV)/lib >/dev/null 2>&1 || true
	@touch $@

$(VENV)/dev.ok: $(VENV)/run.ok requirements-dev.txt
	@$(PY) -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

demo: $(VENV)/run.ok ## start the site with the demo run, and show what happens
	@$(LOCAL) $(PY) manage.py demo

demo-stop: $(VENV)/run.ok ## cancel the jobs of the demo that still run
	@$(LOCAL) $(PY) manage.py demo_stop

demo-check: $(VENV)/run.ok ## the demo unattended, decided through the API, with a verdict
	@mkdir -p var && $(LOCAL) CONDUCTOR_DATA=$$(mktemp -d "$(CURDIR)/var/check-XXXXXX") $(PY) manage.py demo_check

real-check: $(VENV)/run.ok ## alignment and reconstruction of a real tilt series, cross-validated
	@mkdir -p var && $(LOCAL) CONDUCTOR_DATA=$$(mktemp -d "$(CURDIR)/var/check-XXXXXX") $(PY) manage.py real_check

services: $(VENV)/dev.ok
	@bash conductor_site/tests/services.sh

test: services ## run every test (installs Chromium, nginx, PostgreSQL and systemd from Debian where it is root and they are missing)
	@$(PY) -m pytest -n auto
	@$(MAKE) --no-print-directory test-postgresql

# Not again: what computes pictures and volumes (pipelines, runs/qc) or talks to clusters and SSH servers below the rows
# never sees a database, and a browser or the whole demo sees it only through what all other tests run on both; the
# demo's commands bring a database of their own.
test-postgresql: services ## the tests that see a database, on a PostgreSQL of their own
	@$(PY) -m conductor_site.tests.postgresql $(PY) -m pytest -n auto -m "not browser and not demo" \
	  record jobs gates runs conductor_site --ignore=runs/qc --ignore=conductor_site/tests/test_demo.py \
	  --ignore=jobs/tests/test_slurm_real.py --ignore=jobs/tests/test_ssh.py --ignore=jobs/tests/test_shell_contract.py

test-fast: $(VENV)/dev.ok ## the tests without browser, demo and waiting (about a minute)
	@$(PY) -m pytest -n auto -m "not slow and not browser and not demo"

# FAULTS="--only local gates --seed 7" tries parts of it, or the same moments again.
test-faults: services ## kill, stall and fill everything there is (15 to 40 minutes; the last line is JSON)
	@$(PY) -m faults $(FAULTS)

bench: $(VENV)/run.ok ## what it costs, each figure against a limit (10 minutes; the last line is JSON)
	@$(PY) -m bench

lint: $(VENV)/dev.ok ## ruff, format, mypy, migrations, deployment check, templates
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy .
	@$(PY) manage.py makemigrations --check --dry-run
	@CONDUCTOR_HTTPS=1 $(PY) manage.py check --deploy --fail-level WARNING
	@$(PY) -m djlint --lint --quiet templates

clean: ## remove the environment and everything that was made here
	@for lock in $(wildcard var/site.lock var/check-*/site.lock); do flock -n $$lock true || \
	  { echo "Nothing is removed: $$(cat $$lock) still runs here. Stop it with Ctrl-C first."; exit 1; }; done
	@$(LOCAL) $(PY) manage.py demo_stop 2>/dev/null || true
	@rm -rf $(VENV) var .pytest_cache .mypy_cache .ruff_cache
