# On a fresh machine: `make demo` shows what it does, `make test` tests it, `make setup` is for working on it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := install --quiet --disable-pip-version-check --no-compile
DEMO := demo
OLD_NUMCODECS := 0.13.0 0.16.5
ROUNDS ?= 5
SECONDS ?= 300
# What is imported is compiled once, also where the environment forbids to write bytecode: pip need not compile it all.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup demo test test-all compiled oracles test-fleet test-oldest test-torch test-studio test-aarch64 search torture fuzz reference pictures docs clean
help: ## show this
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

# Each environment has what its targets need: .venv-demo the package alone, .venv what `make test` takes.
EXTRA = $(if $(findstring demo,$@),,[test$(EXTRAS_OF_$(@D))])
EXTRAS_OF_.venv-fleet := ,dask,ray
$(VENV)/ready .venv-demo/ready .venv-fleet/ready: setup.py pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip $(INSTALL) -e '.$(EXTRA)'
	touch $@

setup: $(VENV)/ready ## an environment for development, and the git hook
	$(BIN)/python -m pip $(INSTALL) pre-commit
	$(BIN)/pre-commit install

demo: .venv-demo/ready ## simulate a drive, convert it, show what came of it
	rm -rf $(DEMO)
	.venv-demo/bin/edgefirst-ros simulate -o $(DEMO)/recording --seconds 10
	.venv-demo/bin/edgefirst-ros convert $(DEMO)/recording -o $(DEMO)/out --name demo
	.venv-demo/bin/edgefirst-ros report $(DEMO)/out/edgefirst/demo --picture $(DEMO)/contact-sheet.png
	@echo "dataset:       $(DEMO)/out/edgefirst/demo"
	@echo "contact sheet: $(DEMO)/contact-sheet.png"
	@echo "report page: $(DEMO)/out/edgefirst/demo/capture_report.html"

# In the order that test/conftest.py gives, since xdist would begin with the files of most tests: the last ones, of few
# and long tests, would leave all but one processor idle. One worker more than processors, as tests wait for clocks and
# other processes for a seventh of their time.
test: QUICK := --quick
test: ## lint, types and the suite but for what is marked as long, in eight minutes
test-all: $(VENV)/all ## the whole suite, also of Dask, the site and the report's page in Chromium
test test-all:
	@$(MAKE) --no-print-directory --jobs 3 oracles $(OLD_NUMCODECS:%=.numcodecs-%/ready) compiled
	$(BIN)/python -m pytest -n $$($(BIN)/python -c 'import os; print(len(os.sched_getaffinity(0)) + 1)' || echo auto) \
		--dist loadfile --no-loadscope-reorder $(QUICK)

# Once, beside what pip does, and not by each worker.
compiled: $(VENV)/ready
	@$(BIN)/python -m pytest --collect-only -qq > /dev/null || true

$(VENV)/all: $(VENV)/ready
	$(BIN)/python -m pip $(INSTALL) -e '.[test,dask,docs]'
	touch $@

# In a venv of its own, because Ray installs 280 MB and pins what others need.
test-fleet: .venv-fleet/ready ## many drives, with real clusters of Dask and Ray, too
	.venv-fleet/bin/python -m pytest test/fleet

# What reads foreign bytes, with the oldest versions that setup.py allows; make test has the newest.
test-oldest: .venv-oldest/ready ## what reads files of others, with the oldest libraries that setup.py allows
	.venv-oldest/bin/python -m pytest -n auto --dist loadfile test/formats test/sources test/model \
		test/video

.venv-oldest/ready: setup.py pyproject.toml
	$(PYTHON) -m venv .venv-oldest
	sed -n '/^REQUIRES/,/^}/s/.*[^A-Za-z0-9_-]\([A-Za-z0-9_-]*\)>=\([0-9.]*\).*/\1==\2/p' setup.py > .venv-oldest/oldest.txt
	.venv-oldest/bin/python -m pip $(INSTALL) -c .venv-oldest/oldest.txt -e '.[test]'
	touch $@

# In a venv of its own, because torch with what it brings for GPUs is 5 GB.
test-torch: .venv-torch/ready ## what torch's DataLoader makes of datasets, and the examples that train
	.venv-torch/bin/python -m pytest test/formats/edgefirst/read/test_torch.py

.venv-torch/ready: setup.py pyproject.toml
	$(PYTHON) -m venv .venv-torch
	.venv-torch/bin/python -m pip $(INSTALL) -e '.[test]' torch
	touch $@


# In a venv of its own, because the vendor's validator installs 620 MB.
test-studio: .venv-validator/ready oracles ## what the vendor's tools make of datasets, its validator, too
	$(BIN)/python -m pytest test/formats/edgefirst/test_vendor_tools.py

.venv-validator/ready:
	$(PYTHON) -m venv .venv-validator
	.venv-validator/bin/python -m pip $(INSTALL) edgefirst-validator
	touch $@

# Needs root, and what it says. The root of Debian is kept in .aarch64. SUITE=trixie, MIRROR=URL of Debian, TESTS=test/ego.
test-aarch64: $(VENV)/ready ## wheels, demo, capture, recovery and tests on an emulated aarch64 (root)
	$(BIN)/python test/aarch64 $(foreach name,SUITE MIRROR TESTS,\
		$(if $($(name)),--$(shell echo $(name) | tr A-Z a-z) '$($(name))'))

# The suite draws the same examples every time; this looks for others, until one fails or ROUNDS are over.
search: $(VENV)/ready oracles ## the property tests again with random draws, ROUNDS=5 times
	for round in $$(seq $(ROUNDS)); do \
		$(BIN)/python -m pytest -q -m hypothesis --hypothesis-profile=search || exit 1; done

# Needs root, and what it says; PARTS=a,b (kills, power cuts, errors, full disks), FORMATS=ncore, ONLY='kill/l5kit/12'.
torture: $(VENV)/ready ## kills, power cuts, errors and full disks at every step of every format (half an hour, root)
	$(BIN)/python test/torture $(foreach name,PARTS FORMATS ONLY SEED JOBS CUTS MOST,\
		$(if $($(name)),--$(shell echo $(name) | tr A-Z a-z) '$($(name))'))

# TARGETS='h264 yaml', all without it. CASES=1000 runs so many of each target, from case FIRST on, however long it takes.
# What fails is kept in fuzz-found; AGAIN=fuzz-found/FILE runs it once more.
fuzz: $(VENV)/ready ## hostile recordings, streams, pictures, configurations and datasets, SECONDS=300 of them
	$(BIN)/python test/fuzz/run_fuzz.py $(if $(AGAIN),--again '$(AGAIN)',--seconds $(SECONDS) --seed $(or $(SEED),1)\
		$(if $(CASES),--cases $(CASES) --first $(or $(FIRST),0)) $(if $(TARGETS),--only $(TARGETS)))

# The vendors' own readers judge what is written. They live in venvs of their own because what they pin would hold the
# project back; what they do not pin, such as numpy, they have from .venv. Where such a venv cannot be made, the tests
# that need it skip and say so.
oracles: .venv-edgefirst/ready .venv-ncore/ready

# Older versions that setup.py allows: those up to 0.16.5 would unpickle what a stranger's dataset holds.
.numcodecs-%/ready: | $(VENV)/ready
	-$(BIN)/python -m pip $(INSTALL) --no-deps --target .numcodecs-$* numcodecs==$* && touch $@

PURELIB := 'import sysconfig; print(sysconfig.get_path("purelib"))'
.venv-edgefirst/ready: OF_OTHERS := numpy polars pyarrow pillow opencv-python-headless pypcd4 edgefirst-client
.venv-ncore/ready: OF_OTHERS := numpy 'zarr<3' 'numcodecs<0.16' dataclasses_json pillow cbor2 scipy typing_extensions universal_pathlib
.venv-ncore/ready: UNPINNED := nvidia-ncore
.venv-edgefirst/ready .venv-ncore/ready: | $(VENV)/ready
	-$(PYTHON) -m venv --without-pip $(@D) \
		&& $(BIN)/python -c $(PURELIB) > "$$($(@D)/bin/python -c $(PURELIB))/beside.pth" \
		&& $(BIN)/python -m pip --python $(@D)/bin/python $(INSTALL) $(OF_OTHERS) \
		$(if $(UNPINNED),&& $(BIN)/python -m pip --python $(@D)/bin/python $(INSTALL) --no-deps $(UNPINNED)) && touch $@

reference: $(VENV)/ready ## write docs/configuration.md from the models, and the drawings
	$(BIN)/python docs/tools/told.py
	$(BIN)/python docs/tools/reference.py
	$(BIN)/python docs/tools/drawings.py

# Needs Chromium, for the page of the report.
pictures: $(VENV)/all ## pictures of a sheet, a report and a terminal for README and docs, from a simulated drive
	$(BIN)/python docs/tools/pictures.py

# LINKS=1 also asks for what the pages name in other places.
docs: $(VENV)/all ## the documentation as a site, in build/site; warnings, also of broken links, are errors
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -c docs . build/site
	$(if $(LINKS),$(BIN)/python -m sphinx --fail-on-warning --keep-going -b linkcheck -c docs . build/links)
	@echo "site: build/site/index.html"

clean: ## remove what the others made
	rm -rf $(VENV) .numcodecs-* .venv-* .aarch64 $(DEMO) build dist *.egg-info
