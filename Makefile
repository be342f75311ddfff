# make setup: create .venv.  make test: the suite.  make test-generic: the suite as on an older CPU.
# make check: lint, types, layers.  make docs: the site.  make package: wheel, sdist, SBOM.  make demo: a tour.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEMO_PORT ?= 8765
DEMO_NETWORK := --events 60000 --accounts 3000 --merchants 300 --days 108 --fraud 0.01

.PHONY: setup test test-generic test-lowest check demo bench page docs package fresh clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(STAMP)

test: setup
	NUMBA_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist worksteal

# The suite as on a CPU without the newer vector instructions: sums in another order, no fused multiply-add.
test-generic: export NUMBA_CPU_NAME := generic
test-generic: export ATEN_CPU_CAPABILITY := default
test-generic: export MKL_CBWR := COMPATIBLE
test-generic: export OPENBLAS_CORETYPE := Nehalem
test-generic: test

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

demo: setup
	mkdir -p demo
	@echo "== 1. A SIMULATED payment network: accounts, merchants, daily rhythm, fraud rings. Nothing in it is real."
	$(BIN)/tapgnn simulate demo/payments.csv $(DEMO_NETWORK) --merchants-out demo/merchants.csv
	$(BIN)/tapgnn simulate demo/past.csv $(DEMO_NETWORK) --first 50000
	$(BIN)/tapgnn simulate demo/new.csv $(DEMO_NETWORK) --skip 50000 --first 52000
	$(BIN)/tapgnn inspect demo/past.csv
	@echo "== 2. Is a model better than trivial methods? Train on the first part, test on the last."
	$(BIN)/tapgnn evaluate demo/past.csv --node-table demo/merchants.csv --node-id merchant_id --classify --seeds 1 --epochs 3 --threads 1 --out demo/evaluation
	@echo "== 3. Train on everything, learn to tell fraud, save, and write a report."
	$(BIN)/tapgnn fit demo/past.csv --epochs 3 --classify --threads 1 --force --out demo/model
	@echo "== 4. Ask the saved model: how risky are new payments, and whom will this account pay next?"
	$(BIN)/tapgnn classify demo/model demo/new.csv --keep amount,channel,is_fraud --out demo/risk.csv
	@echo "The first rows of demo/risk.csv, one for each row of demo/new.csv:"
	@head -6 demo/risk.csv
	$(BIN)/tapgnn rank demo/model a00001 a00002 -k 3
	@echo "== 5. Live: a server on this machine alone takes in the payments that come after."
	rm -f demo/state.db*
	@$(BIN)/tapgnn serve demo/model --journal demo/state.db --port $(DEMO_PORT) --log-level warning & server=$$!; \
	trap 'kill -TERM $$server; wait $$server' EXIT; \
	$(BIN)/tapgnn replay demo/payments.csv --server http://127.0.0.1:$(DEMO_PORT)
	@echo
	@echo "The reports: demo/evaluation/report.html and demo/model/report.html (open them in a browser)."
	@echo "Next: $(BIN)/tapgnn --help, the examples in README.md, or your own log: $(BIN)/tapgnn evaluate LOG.csv --threads 1"

bench: setup
	$(BIN)/python benchmarks/scan.py
	$(BIN)/python benchmarks/forward.py
	$(BIN)/python benchmarks/training.py

# docs/results.md from results/; 'tapgnn reproduce NAME' and 'python benchmarks/record.py NAME' fill it.
page: setup
	$(BIN)/python docs/results_page.py

# The site in site/, from docs/; a warning is an error.
docs: setup
	$(BIN)/mkdocs build --strict

# Wheel and sdist in dist/, the wheel alone in an empty environment, what it does there, and what it then consists of
# (CycloneDX).
BARE := dist/environment/bin
TINY := dist/environment/tiny
package: setup
	rm -rf dist
	$(BIN)/python -m hatchling build
	$(PYTHON) -m venv --clear dist/environment
	$(BARE)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	$(BARE)/tapgnn --version
	$(BARE)/python -c 'from importlib.util import find_spec; found = [name for name in ("fastapi", "ray", "torch_geometric") if find_spec(name)]; raise SystemExit(f"the bare wheel installs {found}" if found else 0)'
	$(BARE)/tapgnn doctor
	$(BARE)/tapgnn simulate $(TINY).csv --events 500 --accounts 60 --merchants 20
	$(BARE)/tapgnn fit $(TINY).csv --epochs 1 --out $(TINY)
	$(BARE)/tapgnn rank $(TINY) a00001 -k 3
	$(BARE)/tapgnn export $(TINY) --embeddings $(TINY).parquet --head $(TINY).safetensors
	$(BIN)/cyclonedx-py environment dist/environment --pyproject pyproject.toml --output-file dist/sbom.json
	rm -rf dist/environment

# A part of the suite with the oldest direct dependencies.
LOWEST := artefacts/lowest
test-lowest:
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check -r constraints-lowest.txt pytest hypothesis pandas httpx jsonschema_rs
	PYTHONPATH=src NUMBA_CACHE_DIR=$(LOWEST)/compiled $(LOWEST)/bin/python -m pytest tests/test_estimator.py tests/data \
	  tests/model/test_files.py tests/cli/test_query.py --ignore tests/data/test_frames.py -o filterwarnings=default -p no:cacheprovider

# Forget the compiled loops.
fresh:
	find src -name '*.nb[ci]' -delete

clean: fresh
	rm -rf $(VENV) .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache artefacts demo site dist tapgnn-evaluation
