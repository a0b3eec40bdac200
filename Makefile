# Two commands for a newcomer: `make demo` and `make test`. Both set up .venv first, from python3 and a package index alone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
SPHINX := $(BIN)/python -m sphinx -q -W --keep-going -b html

.PHONY: demo check coverage mutants test test-papers test-pages test-full test-versions test-package package docs docs-draft figures notebooks diagrams outputs browser lint \
  bench lock clean

$(READY): requirements.txt pyproject.toml papers/pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tutelage needs Python 3.11 or newer; run: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e . -e ./papers
	touch $@

demo: $(READY)  ## theory against twenty networks: a table, and the names of the figure and the page
	mkdir -p output
	$(BIN)/tutelage compare --out-dir output/compare

# Two processes, one core each: threads of OpenBLAS wait by spinning, and take ten times what they compute from the other one.
check coverage mutants lint test test-papers test-pages test-full docs: export OPENBLAS_NUM_THREADS = 1

QUICK := -q -n 2 $(addprefix --ignore=,papers tests/explorer tests/page) -m "not full and not site and not papers and not pages"
# One file of each layer, compiled as for users; all others are compiled quickly (tests/conftest.py). The longest ones first, each
# in one process, so that numba compiles its loops once.
OPTIMIZED := $(addprefix tests/,comparison/test_expected.py simulation/test_context.py stream/test_increments.py solvers/test_equations.py \
  stream/moments/test_relu.py plot/test_trajectory.py analysis/single_steps/test_drift_matrices.py sweeps/test_figures.py)

# The inner loop: rules of files and names, the public interface, and a few files that find a wrong formula fast.
CORE := $(addprefix tests/,test_lint.py stream/moments/test_polynomial.py stream/moments/test_numerics.py stream/test_committee.py \
  comparison/test_verdict.py problem/test_start.py)

check: $(READY)  ## in less than a minute: rules of files, the public interface, a few tests of the core
	$(BIN)/python -m tests.lint
	$(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not full and not site" tests/public $(CORE)

coverage: $(READY)  ## lines and branches of src that the quick suite runs; machine code by numba is not seen
	mkdir -p output/coverage
	$(BIN)/python -m coverage run -m pytest $(QUICK) -n 0
	$(BIN)/python -m coverage report
	$(BIN)/python -m coverage html

mutants: $(READY)  ## change single operators and numbers of the formulas: which changes does no test notice?
	$(BIN)/python -m tests.mutants --count 60 --seed 0

test: $(READY)  ## the suite of the library, without published figures and pages
	COMPILE=fully $(BIN)/python -m pytest $(QUICK) --dist loadfile --no-loadscope-reorder $(OPTIMIZED)
	$(BIN)/python -m pytest $(QUICK) --dist worksteal $(addprefix --ignore=,$(OPTIMIZED))

test-papers: $(READY) browser  ## published figures in their quick versions, and the formulas of single papers
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "papers and not full" papers

test-pages: $(READY) browser  ## the explorer, pages in a browser, and cells in a notebook's kernel
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "pages and not full and not site and not papers"

test-full: $(READY) browser  ## all three suites with their long statistical tests, compiled as for users (tests/conftest.py)
	COMPILE=fully $(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not site"

test-versions:  ## the suite on other versions of Python and jax, 3.12:0.11 3.13:0.11 3.13:0.10 or VERSIONS (needs uv)
	VERSIONS="$(VERSIONS)" .ci/versions

package: $(READY)  ## wheel and source archive of the library and of the papers, ready to upload, in output/package
	rm -rf output/package
	$(BIN)/python -m hatchling build -d output/package
	cd papers && ../$(BIN)/python -m hatchling build -d ../output/package

test-package: $(READY)  ## build them, install them into empty environments and run the quickstart there (needs a package index)
	$(BIN)/python -m pytest -q -n 0 -m full tests/test_package.py

docs: $(READY) browser  ## the site, in output/docs: every block of code is run, links and names resolve, then it is looked at in a browser
	$(BIN)/python -m pytest -q -n 2 -m site tests/test_examples.py tests/test_extending.py
	$(SPHINX) -d output/docs-build/doctrees docs output/docs
	$(BIN)/python -m pytest -q -n 0 -m site tests/test_site.py

docs-draft: $(READY)  ## the site without running anything, in seconds, in output/docs-draft: to read while writing
	$(SPHINX) -D draft=1 -d output/docs-draft-build/doctrees docs output/docs-draft

figures: $(READY) browser  ## the picture and the printed output of the README, and the pictures of the documentation
	$(BIN)/python docs/_site/outputs.py README.md
	$(BIN)/python docs/_site/pictures.py

notebooks: $(READY)  ## the chapters of the course and the examples as notebooks, in output/notebooks
	$(BIN)/python docs/_site/notebooks.py

diagrams: $(READY)  ## the drawings of the course and of ARCHITECTURE.md
	MPLBACKEND=agg $(BIN)/python docs/_site/diagrams.py
	$(BIN)/python docs/_site/architecture.py

outputs: $(READY)  ## what the code of the course prints and draws, written into its pages
	$(BIN)/python docs/_site/outputs.py

browser:  ## for the tests of pages: Chromium, installed if it is missing and that is permitted
	.ci/browser

lint: $(READY)  ## rules of the language, of the format, of types, and of this repository (tests/lint)
	$(BIN)/python -m tests.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

bench: $(READY)
	$(BIN)/python -m benchmarks

lock:  ## pin again: what is tested is what a fresh machine gets (needs uv)
	uv pip compile --universal --python-version 3.11 --extra dev --no-header --no-annotate -q \
	  --constraint constraints.in pyproject.toml -o requirements.txt

clean:
	rm -rf $(VENV) output
