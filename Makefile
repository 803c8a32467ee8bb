# Every target sets up what it needs in .venv. `make` alone lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Sphinx and what hangs on it are pinned and live apart.
BOOK := .venv-book
# PyTorch's own index of builds without CUDA, for machines without an NVIDIA card. Empty: torch comes from pip's own index.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
NB ?=
DEMO :=
TEXT ?=
# Make itself must not look into a text: it may hold a dollar sign.
unexport TEXT

.PHONY: help demo bench lint test test-fast test-lowest pins mutate notebooks chapter address book book-check lab clean
.NOTPARALLEL:

help:  ## List the targets.
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 12

demo: export DEMO_TEXT := $(value TEXT)
demo: $(VENV)/installed/core  ## Boundaries of a trained model, in TEXT="..." too; then train a tiny one on two CPU cores.
	$(if $(value TEXT),$(if $(filter-out demo,$(MAKECMDGOALS)),$(error a text with spaces goes into quotes: make demo TEXT="two words")))
	$(BIN)/python -m rltok demo $(DEMO) $(if $(value TEXT),"--text=$$DEMO_TEXT")

bench: $(VENV)/installed/core  ## Time whole updates on this machine: 147m on a CUDA card, tiny elsewhere.
	$(BIN)/python -m rltok bench

# Scripts of the book use those of the notebooks.
book address chapter: export PYTHONPATH = scripts/book:scripts/notebooks
# Two busy processes on two cores: idle OpenMP threads must not spin, and each pytest worker keeps to one thread.
test test-fast mutate: export OMP_WAIT_POLICY = PASSIVE
# Many tests start a Python of their own. Without bytecode on disk, which some containers switch off, each compiles the package anew.
test test-fast test-lowest mutate: export PYTHONDONTWRITEBYTECODE =

lint: $(VENV)/installed/test  ## Style, format and import directions.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

# One run for both, so that a core that is done with notebooks goes on with tests. A file stays on one worker: cells need their
# kernel, and what the tests of a file share is made once. tests/conftest.py puts what takes long first.
test: $(VENV)/installed/test  ## All tests, and every stored output of the notebooks.
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --nbval

test-fast: $(VENV)/installed/test  ## Under a minute on two cores: leaves out the notebooks and the slow files that tests/slow_tests.txt lists.
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 tests $(addprefix --ignore=tests/,$(file < tests/slow_tests.txt))

# Old releases of what is needed on new ones of what those need: warnings of theirs say nothing about rltok.
test-lowest:  ## The tests with the lowest declared versions, in .venv-lowest; T=tests/test_x.py for some.
	@$(MAKE) VENV=.venv-lowest SET_UP=--lowest .venv-lowest/installed/test
	OMP_NUM_THREADS=1 OMP_WAIT_POLICY=PASSIVE .venv-lowest/bin/python -m pytest -n 2 -W ignore::DeprecationWarning -W ignore::FutureWarning $(or $(T),tests)

pins:  ## Write constraints.txt anew: the newest tools that tests and lint can have.
	rm -rf .venv-pins
	@$(MAKE) VENV=.venv-pins SET_UP=--newest .venv-pins/installed/test
	.venv-pins/bin/python scripts/pin_tools.py

mutate: $(VENV)/installed/test  ## Plant known mistakes one by one and check that a test notices each.
	$(BIN)/python scripts/mutate.py

notebooks: $(VENV)/installed/test  ## Execute the notebooks and store their outputs; NB=03 for some, MEASURE=1 for the strip.
	$(BIN)/python scripts/notebooks/run_notebooks.py $(if $(MEASURE),--measure) $(NB)

chapter: $(VENV)/installed/test  ## Start a chapter: make chapter NAME=04_the_boundary_policy TITLE="The boundary policy".
	$(BIN)/python scripts/notebooks/new_chapter.py "$$NAME" "$$TITLE"
	$(BIN)/python scripts/book/make_cards.py

book: $(BOOK)/installed/book  ## Build the book into build/_build/html. It reads without a network.
	for part in book_config make_register make_log make_speed make_texts make_intro make_cards; do $(BOOK)/bin/python scripts/book/$$part.py || exit 1; done
	rm -rf build/_build
	$(BOOK)/bin/jupyter-book build . --config book/_config.yml --toc book/_toc.yml --path-output build -n -W --keep-going

address: $(VENV)/installed/test  ## Write the repository's address everywhere: make address REPOSITORY=https://github.com/OWNER/REPO
	$(BIN)/python scripts/write_address.py '$(REPOSITORY)'

book-check: $(BOOK)/installed/book  ## Look at the built book in headless Chromium: wide and narrow, light and dark, no network.
	for part in check_book check_demo check_moments; do $(BOOK)/bin/python scripts/book/$$part.py || exit 1; done

lab: $(VENV)/installed/lab  ## JupyterLab with everything the notebooks need.
	$(BIN)/jupyter lab --config=scripts/notebooks/jupyter_server_config.py

clean:  ## Remove the environment, builds and caches. Runs stay.
	rm -rf $(VENV) $(BOOK) .venv-lowest .venv-pins build dist *.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

define check-python
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo \
	  "rltok needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>/dev/null || echo not there)." \
	  "Name another: make $(firstword $(MAKECMDGOALS)) PYTHON=python3.12" >&2; exit 1; }
@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo \
	  "'$(PYTHON)' cannot make environments. On Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }
endef

# The stamps .venv/installed/core, test and lab say what the environment holds. They lie in .venv/unfinished from the first
# step of a set-up to its last, so one that was cut off leaves no stamp, and the next starts afresh.
$(VENV)/installed/%: pyproject.toml constraints.txt scripts/set_up.py
	$(check-python)
	@if [ -e $(VENV)/unfinished ]; then rm -rf $(VENV); fi
	@mkdir -p $(VENV)/installed && mv $(VENV)/installed $(VENV)/unfinished
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python scripts/set_up.py $* --torch-index "$(TORCH_INDEX)" $(SET_UP)
	@touch $(VENV)/unfinished/$* && mv $(VENV)/unfinished $(VENV)/installed

# The book's packages alone: pages are made from stored outputs, so neither torch nor rltok is needed.
$(BOOK)/installed/book: pyproject.toml
	$(check-python)
	rm -rf $(BOOK)
	$(PYTHON) -m venv $(BOOK)
	$(BOOK)/bin/python -c 'import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	  print(*project["optional-dependencies"]["book"], sep="\n")' > $(BOOK)/requirements.txt
	$(BOOK)/bin/python -m pip install -q --disable-pip-version-check -r $(BOOK)/requirements.txt
	@mkdir $(BOOK)/installed && touch $@
