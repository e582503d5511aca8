# Two commands matter: `make demo` and `make test`. Both install what they miss, and say so.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.NOTPARALLEL:
.DELETE_ON_ERROR:

export DEBIAN_FRONTEND := noninteractive
export PIP_DISABLE_PIP_VERSION_CHECK := 1

CARGO ?= cargo
PYTHON ?= python3
SUDO := $(if $(filter 0,$(shell id -u)),,sudo -n)
VENV := .venv/bin/python
# On all processors; what a file's tests share, its fixtures, is made once.
PYTEST := $(VENV) -m pytest -q --numprocesses auto --dist loadfile
# Most tests wait for processes, half of their time: twice as many at once as processors.
TEST_JOBS = $$((2 * $$(nproc)))

# Tests, system tests and interop share one profile, so that everything is compiled once.
DEBUG_BINARY := target/debug/fishplate
RELEASE_BINARY := target/release/fishplate
# Always both: with one of them alone, what they use has other features and is compiled again.
RELEASE := $(CARGO) build --release --package fishplate --package fishplate-mpi

# $(call need,COMMAND,PACKAGE,WHAT FOR): the Debian package, if the command is missing.
define need
@PATH="$$PATH:/usr/sbin:/sbin"; command -v $(1) >/dev/null || { \
  echo "installing $(2) (apt), for $(3)"; \
  $(SUDO) apt-get -qq update && \
  $(SUDO) apt-get -qq install -y --no-install-recommends $(2) >/dev/null; }
endef

# $(call install_package,--release): the Python package into .venv, compiled so.
define install_package
mkdir -p python/command/scripts
cd python && ../.venv/bin/maturin develop --quiet $(1)
endef

.PHONY: help
help:
	@echo 'make demo    (KEEP=1 leaves services up for a browser) a pipe under pressure, an MPI program across two sites, and the Pipe Problem, coarse; programs as services'
	@echo 'make pipe    the whole Pipe Problem: gas, heat, stress and a crack at six sites; SIZE=coarse, small or large'
	@echo 'make validation  the Pipe Problem beside closed forms and textbooks, eight minutes'
	@echo 'make test    every check there is'
	@echo 'make check   the fast ones: formatting, lints, dependencies, unit tests'
	@echo 'make quake   servers of others and ours under load until they fail or show that they do not, ten minutes'
	@echo 'make soak    a workflow, its servers and programs killed 300 times, and the coarse Pipe Problem every 5 s, about 15 minutes'
	@echo 'make mpi4py  the tests of mpi4py on our MPI library, each transport once or more; 5 ranks alone take 11 minutes on two cores'
	@echo 'make fuzz    every reader for an hour'
	@echo 'make fuzz-ogc  ten thousand requests made of /ogc/openapi.json; no answer may be 5xx'
	@echo 'make ogc-ets  the executable test suite of OGC API - Processes'
	@echo 'make pgo     fishplate as packages have it: optimized by a profile of a training run; twice the time of a build'
	@echo 'make bench   the measurements of benches/BENCHMARKING.md'
	@echo 'make package a static binary, a Debian package and a wheel, in target/package'
	@echo 'make package-test  installs, starts, upgrades, removes them (as root; nothing stays)'
	@echo 'make deny    licences and known vulnerabilities of what we depend on'

# --- demo -----------------------------------------------------------------------------------------

# Installs what is missing: Debian's tetgen, calculix-ccx, openfoam (70 MB, 420 MB on the disk), openmpi-bin, openssl and
# libraries of X11 and OpenGL; in .venv Gmsh, NumPy, meshio and the Python package that it builds. Within five minutes after the build.

.PHONY: demo
demo: tools .venv/python-tools
	examples/pipe/install.sh
	$(RELEASE)
	$(call install_package,--release)
	@echo 'A thick-walled pipe under pressure:'
	$(VENV) examples/pipe/demo.py --fishplate $(RELEASE_BINARY)
	@echo
	@echo 'Molecules, an MPI program across two sites:'
	$(VENV) examples/moldyn/demo.py --fishplate $(RELEASE_BINARY)
	@echo
	@echo 'The Pipe Problem: gas, heat, stress and a crack at six sites, a minute or two:'
	cd examples/pipe/problem && ../../../$(VENV) -m pipeproblem --name demo --anew --steps 3 \
	  --fishplate $(CURDIR)/$(RELEASE_BINARY)
	@echo
	@echo 'What to try next, with the program that was just built:'
	@echo '  export PATH="$(CURDIR)/target/release:$$PATH"'
	@echo '  fishplate serve examples/arithmetic     # and open http://127.0.0.1:8080/ in a browser'
	@echo '  fishplate usage http://127.0.0.1:8080/arithmetic-test'
	@echo '  less docs/guides/first-service.md       # a service of your own, step by step'
	@echo
ifdef KEEP
	@$(VENV) examples/pipe/keep.py --fishplate $(RELEASE_BINARY)
else
	@echo 'The services of the pipe and the Pipe Problem, and some small ones, in a browser, at http://127.0.0.1:8080/ until Ctrl-C, with forms, jobs and pictures:'
	@echo '  .venv/bin/python examples/pipe/keep.py     # or at once: make demo KEEP=1'
endif

SIZE ?= coarse
STEPS ?= 3
.PHONY: pipe
pipe: tools .venv/python-tools
	examples/pipe/install.sh
	$(RELEASE)
	$(call install_package,--release)
	cd examples/pipe/problem && ../../../$(VENV) -m pipeproblem --size $(SIZE) --steps $(STEPS)

# Closed forms and textbooks: some eight minutes and 6 GB.
.PHONY: validation
validation: tools .venv/python-tools
	examples/pipe/install.sh
	cd examples/pipe/problem && ../../../$(VENV) -m pipeproblem.validation
	cd examples/pipe/problem && ../../../$(VENV) -m pipeproblem.heat_validation

# Axis 1.x in session scope, which becomes a zombie; in request scope, CXF, gSOAP, Spyne and ours, which do not. A line for each.
.PHONY: quake
quake: tools
	examples/quake/install.sh axis cxf gsoap python
	$(RELEASE)
	rm -rf target/quake
	PATH="$(CURDIR)/target/release:$$PATH" examples/quake/run.sh target/quake

# Fishplate as packages have it, for the machine at hand, and what it is measured with: target/pgo/TARGET/dist.
.PHONY: pgo
pgo: tools
	packaging/pgo.sh "$$(rustc -vV | sed -n 's/^host: //p')" fishplate fishplate-mpi fishplate-benches

# --- test -----------------------------------------------------------------------------------------

.PHONY: test
test: format lint dependencies unit generated training examples python interop fuzz-briefly

.PHONY: format
format: tools
	$(CARGO) fmt --all --check

.PHONY: lint
lint: tools
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	@echo 'comments that only ask:'; ! git grep -nE '^ *//[/!]? (How|What|When|Where|Which|Who|Whom|Whose|Why)\.$$' -- '*.rs'
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" $(CARGO) doc --workspace --lib --no-deps \
	  --exclude fishplate-python --document-private-items --quiet

# As `cargo xtask`, which would compile what it uses once more, with fewer features.
.PHONY: dependencies
dependencies: binary
	target/debug/xtask check-deps

# Real servers of FTP, S3 and mail, for the tests of transfers.
.PHONY: servers
servers:
	crates/data/servers.sh

# zeep and gSOAP, which send messages into domains in the system tests too.
.PHONY: toolkits
toolkits:
	$(call need,soapcpp2,gsoap libgsoap-dev,messages between ranks sent by gSOAP)
	cd interop && $(PYTHON) -c 'import pathlib, preparation as p; p.install_packages(set(p.venv_packages())); \
	  p.zeep(pathlib.Path("../.cache/interop").resolve())'

# Unit, property and system tests. The last need the binary, which cargo builds for them.
.PHONY: unit
# What every machine that runs `make test` must have; what else a test misses, it says and is skipped.
unit: export FISHPLATE_REQUIRED = servers nginx namespaces zeep gsoap libfaketime $(if $(SUDO),,networks)
unit: binary servers toolkits
	$(call need,ip,iproute2,hosts with networks of their own)
	$(call need,apache2,apache2-bin,the tests of fishplate cgi)
	$(call need,faketime,faketime,servers whose clock is wrong)
	$(CARGO) test --workspace --no-fail-fast -- --test-threads $(TEST_JOBS)

# All programs, libraries and tests at once: by single packages, with fewer features, what they use would be compiled again.
.PHONY: binary
binary: tools
	$(CARGO) build --quiet --workspace --lib --bins --tests

.PHONY: generated
generated: binary
	target/debug/xtask generate --check --binary $(DEBUG_BINARY)

# Whether all still runs that packages are trained with.
.PHONY: training
training: binary
	$(PYTHON) packaging/train.py --quick target/debug

# With the program that was just built, not with one of `make demo`.
.PHONY: examples
examples: export FISHPLATE = $(CURDIR)/$(DEBUG_BINARY)
examples: binary
	$(call need,openssl,openssl,the certificate of two sites)
	examples/pipe/install.sh
	$(PYTEST) examples/pipe/tests
	$(PYTEST) examples/moldyn/tests

# The Python package: its types, its tests, the guide's examples; the notebook, the pipe across two sites.
.PHONY: python
python: binary python-package .venv/vtk
	$(call need,getdp,getdp,the second solver of the Pipe Problem)
	cd python && ../.venv/bin/mypy && ../.venv/bin/stubtest fishplate._native
	cd python && ../$(PYTEST) --numprocesses $(TEST_JOBS)
	$(PYTEST) examples/notebook/tests examples/two-sites/tests examples/workflow/tests examples/steering/tests
	$(PYTEST) examples/pipe/problem/tests

.PHONY: python-package
python-package: tools .venv/python-tools
	$(call install_package,)

.venv/python-tools: python/requirements.txt examples/pipe/requirements.txt
	examples/pipe/install.sh
	@echo "installing into .venv: $$(grep -v '^#' $< | tr '\n' ' ')"
	$(VENV) -m pip install -q -r $<
	@touch $@

# ParaView's reader, for the fields of the Pipe Problem.
.venv/vtk: examples/pipe/problem/tests/requirements.txt | .venv/python-tools
	@echo "installing into .venv: $$(grep -v '^#' $<) (600 MB)"
	$(VENV) -m pip install -q -r $<
	@touch $@

# What `make test` does with 10 kills.
.PHONY: soak
soak: tools python-package
	$(CARGO) build --quiet --package fishplate
	cd python && KILLS=300 ../$(VENV) -m pytest -q -s tests/test_kills.py
	examples/pipe/install.sh
	$(VENV) benches/pipe/killed.py --size coarse --steps 2 --every 5 --binary $(DEBUG_BINARY)

# mpi4py's own tests on our library, at 1 to 5 ranks; the first time it compiles mpi4py (1 to 5 minutes). Not in `make test`.
.PHONY: mpi4py
mpi4py: tools
	$(CARGO) build --quiet --package fishplate --package fishplate-mpi
	crates/mpi/tests/mpi4py.sh target/debug 1 2:tcp 3 4:soap 5:tcp

.PHONY: interop
interop: binary python-package
	$(PYTHON) interop/run.py --binary $(DEBUG_BINARY)

# Schemathesis with ten thousand requests or more (OGC_SEED=N: other ones); `make interop` makes three hundred.
.PHONY: fuzz-ogc
fuzz-ogc: binary python-package
	OGC_REQUESTS=10000 INTEROP_TIMEOUT=3600 $(PYTHON) interop/run.py --binary $(DEBUG_BINARY) --only ogc

# The standard's executable test suite, built from its sources (OGC_ETS=DIR, or GitHub) with Maven: not in `make test`.
.PHONY: ogc-ets
ogc-ets: binary
	$(PYTHON) interop/run.py --binary $(DEBUG_BINARY) --only ogc-ets

# Each reader for some seconds; `make fuzz` takes an hour for each.
.PHONY: fuzz-briefly
fuzz-briefly: tools
	$(PYTHON) fuzz/run.py --seconds 3

# --- more -----------------------------------------------------------------------------------------

.PHONY: check
check: tools
	$(CARGO) xtask check

.PHONY: fuzz
fuzz: tools
	$(PYTHON) fuzz/run.py --seconds 3600

.PHONY: bench
bench: pgo .venv/python-tools
	$(call need,wrk,wrk,the load of the benches)
	$(call need,curl,curl,the transfers of the benches)
	$(call need,ip,iproute2,the link of the benches)
	$(call need,openssl,openssl,the certificate of the benches over TLS)
	$(call need,rsync,rsync,a peer of the transfers by reference)
	$(call need,sshd,openssh-server,a peer of the transfers by reference)
	$(CARGO) build --release --package fishplate-data --example fetch
	$(call install_package,--release)
	$(CARGO) bench --package fishplate-jobs --bench local_executor --no-run
	$(PYTHON) benches/run.py --pgo
	$(PYTHON) benches/run.py packaging --link --pgo
	$(PYTHON) benches/run.py reference --link --pgo
	$(PYTHON) benches/run.py messages --link --pgo
	$(PYTHON) benches/run.py pipe-small pipe-large --link --pgo

.PHONY: deny
deny: tools
	@$(CARGO) deny --version >/dev/null 2>&1 || { \
	  echo 'installing cargo-deny (cargo), for make deny'; $(CARGO) install --locked cargo-deny; }
	$(CARGO) deny check

# --- package --------------------------------------------------------------------------------------

# The static binary (musl), and what is made of it. VERSION is the workspace's; a test gives another.
PACKAGES := target/package
MUSL := x86_64-unknown-linux-musl
VERSION = $$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)

.PHONY: static
static: tools
	$(call need,musl-gcc,musl-tools,the static binary)
	@rustup target list --installed | grep -qx $(MUSL) || { \
	  echo 'installing $(MUSL) (rustup), for the static binary'; rustup target add $(MUSL); }
	packaging/pgo.sh $(MUSL) fishplate fishplate-benches
	@mkdir -p $(PACKAGES)
	strip -o $(PACKAGES)/fishplate target/pgo/$(MUSL)/dist/fishplate
	@ldd $(PACKAGES)/fishplate 2>&1 | grep -Eq 'statically linked|not a dynamic' || { echo 'it is not static'; exit 1; }
	@echo "$(PACKAGES)/fishplate: $$(stat -c %s $(PACKAGES)/fishplate) bytes"

.PHONY: package
package: static
	$(RELEASE)
	strip --strip-unneeded -o $(PACKAGES)/libmpi_abi.so.1 target/release/libmpi_abi.so
	packaging/debian/build.sh $(PACKAGES)/fishplate $(PACKAGES)/libmpi_abi.so.1 "$(VERSION)" $(PACKAGES)
	FISHPLATE_COMMAND=$(CURDIR)/$(PACKAGES)/fishplate FISHPLATE_MPI_LIBRARY=$(CURDIR)/$(PACKAGES)/libmpi_abi.so.1 \
	  $(PYTHON) -m pip wheel --quiet --no-deps --wheel-dir $(PACKAGES) ./python
	@ls -l $(PACKAGES)

# Not in `make test`: the static binary takes minutes to build.
.PHONY: package-test
package-test: package
	packaging/debian/build.sh $(PACKAGES)/fishplate $(PACKAGES)/libmpi_abi.so.1 "$(VERSION)+next" $(PACKAGES)
	$(SUDO) packaging/debian/test.sh $(PACKAGES)/fishplate_"$(VERSION)"_*.deb $(PACKAGES)/fishplate_"$(VERSION)"+next_*.deb
	packaging/wheel-test.sh $(PACKAGES)/fishplate-*.whl

# --- what is missing ------------------------------------------------------------------------------

.PHONY: tools
tools:
	@command -v $(CARGO) >/dev/null || { echo 'Rust is missing: install it with rustup'; exit 1; }
	@$(CARGO) fmt --version >/dev/null 2>&1 && $(CARGO) clippy --version >/dev/null 2>&1 || { \
	  echo 'installing rustfmt and clippy (rustup)'; rustup component add rustfmt clippy; }
	$(call need,cc,gcc libc6-dev,linking and SQLite)
