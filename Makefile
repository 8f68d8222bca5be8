# The one door to this repository. `make help` lists what stands behind it.
# A clone needs only Python >= 3.11 (with its venv module), make and git: each target sets up what it uses.

VENV := .venv
BIN := $(VENV)/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)

# Interpreters to try for the environment, in this order. `make setup PYTHON=/path/to/python` overrides.
PYTHON ?=
CANDIDATES := $(PYTHON) python3 python3.13 python3.12 python3.11 python3.14

# A file stays in one process: its servers start once, and half of the time is saved. Tests mostly wait, for processes
# that start and for leases that end, so that there are more of these processes than a small machine has cores. In the
# order of their names, since the files with the fewest tests, which would come last, wait the longest.
PARALLEL := -n 6 --dist loadfile --no-loadscope-reorder

# buf compares proto/ with this commit.
AGAINST ?= HEAD~1

.DEFAULT_GOAL := help
.PHONY: help setup run gen protos check-generated lint lint-proto types test test-wide test-all conformance serve-conformance tck bench docs dashboard manifests image sbom lock ci

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  %-18s %s\n", $$1, $$2 }' Makefile

setup: $(VENV)/.dev ## Create .venv with everything a developer needs

run: $(VENV)/.runtime ## Serve the demo agent: gRPC on 50051, HTTP on 8080, embedded store
	a2a-grpc serve

# --- environment ------------------------------------------------------------------------------------------------------

$(BIN)/python:
	@for candidate in $(CANDIDATES); do \
	  if "$$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "creating $(VENV) with $$("$$candidate" --version)"; \
	    exec "$$candidate" -m venv $(VENV); \
	  fi; \
	done; \
	echo "No usable Python found. Needed: 3.11 or newer with its venv module (on Debian and Ubuntu: the package python3-venv)." >&2; \
	exit 1

# What the service needs and nothing else: the image installs the same list.
$(VENV)/.runtime: requirements.txt pyproject.toml | $(BIN)/python
	$(call install,requirements.txt)
	@touch $@

# A superset with the same versions, so the runtime is complete as well.
$(VENV)/.dev: requirements-dev.txt requirements.txt pyproject.toml | $(BIN)/python
	$(call install,requirements-dev.txt)
	@touch $(VENV)/.runtime $@

define install
@echo "installing $(1)"
@python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(1)
@python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
endef

lock: $(VENV)/.dev ## Resolve pyproject.toml anew into the two lock files
	uv pip compile --quiet --upgrade $(COMPILE) --group dev --output-file requirements-dev.txt
	uv pip compile --quiet $(COMPILE) --group build --constraints requirements-dev.txt --output-file requirements.txt
COMPILE := --universal --python-version 3.11 --generate-hashes pyproject.toml

# --- protocol ---------------------------------------------------------------------------------------------------------

# google/api as installed, for buf and protoc to import. The one change: field_behavior as unpacked. protoc reads both
# encodings; the generator of a2a-sdk writes this one, and the two descriptors must be equal byte for byte (docs/SPEC_BUMP.md).
build/include: $(VENV)/.dev Makefile
	@rm -rf $@ && mkdir -p $@/google/api $@/google/rpc
	@from=$$(python -c 'import os.path; from google.api import http_pb2; print(os.path.dirname(http_pb2.__file__))') && \
	  cp "$$from/annotations.proto" "$$from/client.proto" "$$from/http.proto" "$$from/launch_stage.proto" $@/google/api/ && \
	  cp "$$from/../rpc/error_details.proto" $@/google/rpc/ && \
	  sed 's/ field_behavior = 1052;/ field_behavior = 1052 [packed = false];/' "$$from/field_behavior.proto" > $@/google/api/field_behavior.proto
	@grep -q 'packed = false' $@/google/api/field_behavior.proto || { rm -rf $@; echo "field_behavior.proto has changed upstream; see build/include in the Makefile" >&2; exit 1; }

# google/rpc is for languages that have no package with the details of errors.
protos: build/include ## Lay out what stubs of other languages are made from

# Service stubs go through grpc_tools with a virtual path, which makes their imports namespaced without touching any text.
define generate
@rm -rf build/generated && mkdir -p build/generated
@buf generate --path proto/a2a.proto --output build/generated/a2a_grpc/pb
@buf generate --path proto/a2a_grpc --output build/generated
@python -m grpc_tools.protoc -Ia2a_grpc/pb=proto -Iproto -Ibuild/include \
  --grpc_python_out=build/generated --mypy_grpc_out=quiet,only_async:build/generated \
  a2a_grpc/pb/a2a.proto $$(cd proto && find a2a_grpc -name '*.proto')
@cp proto/pb_init.py build/generated/a2a_grpc/pb/__init__.py
@touch build/generated/a2a_grpc/pb/py.typed $(foreach package,card admin registry,build/generated/a2a_grpc/$(package)/py.typed)
endef

gen: $(VENV)/.dev build/include ## Write generated/ anew from proto/
	$(generate)
	@cp -R build/generated/. generated
	@cd generated && find . -type f -not -path '*/__pycache__/*' | while read -r file; do test -e "../build/generated/$$file" || rm -v "$$file"; done

check-generated: $(VENV)/.dev build/include ## Prove that generated/ is what proto/ gives
	$(generate)
	@diff -r -x __pycache__ generated build/generated || { echo "generated/ differs from what proto/ gives: run 'make gen' and commit the result" >&2; exit 1; }
	@echo "generated/ is what proto/ gives"

lint-proto: $(VENV)/.dev build/include
	buf lint proto
	@rm -rf build/before && mkdir -p build/before; \
	if ! git rev-parse --quiet --verify '$(AGAINST)^{commit}' >/dev/null 2>&1; then \
	  echo "buf breaking: skipped, this clone has no $(AGAINST) (first commit, or a shallow clone)"; \
	elif ! git archive $(AGAINST) proto buf.yaml 2>/dev/null | tar -x -C build/before 2>/dev/null; then \
	  echo "buf breaking: skipped, $(AGAINST) has no proto/"; \
	else \
	  mkdir build/before/build && cp -R build/include build/before/build/include && \
	  echo "buf breaking proto --against $(AGAINST)" && \
	  buf breaking proto --against build/before/proto; \
	fi

# --- checks -----------------------------------------------------------------------------------------------------------

lint: $(VENV)/.dev lint-proto ## ruff, import rules, buf lint, buf breaking against the previous commit
	ruff check
	ruff format --check
	lint-imports --no-logo

types: $(VENV)/.dev ## mypy --strict
	mypy

test: $(VENV)/.dev ## The tests, in a few minutes
	pytest $(PARALLEL) -m "not slow and not wide"

test-wide: $(VENV)/.dev ## Other stores, official clients, the command line, whole pages of the docs, the costliest inputs
	pytest $(PARALLEL) -m "wide and not slow"

test-all: $(VENV)/.dev ## All tests: with the wide and the slow ones
	pytest $(PARALLEL)

conformance: $(VENV)/.dev ## The protocol rules on every binding
	pytest $(PARALLEL) tests/conformance tests/interop

ci: lint types check-generated docs test-wide test ## What has to pass before a change lands

# --- running things ---------------------------------------------------------------------------------------------------

# The conformance agent: full, min, extdecl or reqext.
PROFILE ?= full

serve-conformance: $(VENV)/.dev ## Serve the conformance agent; PROFILE=full|min|extdecl|reqext
	A2A_PUSH_ALLOW=$${A2A_PUSH_ALLOW:-localhost} A2A_PUSH_ALLOW_HTTP=$${A2A_PUSH_ALLOW_HTTP:-true} \
	  python -m a2a_grpc.server serve tests.conformance.agent:$(PROFILE)

tck: $(VENV)/.dev ## Run the public test kit from a checkout: TCK=DIR
	@test -n "$(TCK)" || { echo "usage: make tck TCK=DIR, a checkout of a2a-tck (branch 1.0-dev)" >&2; exit 2; }
	python -m tests.conformance.tck $(TCK)

bench: $(VENV)/.dev ## Measure everything in bench/README.md, against the floor and a2a-sdk (an hour)
	python -m bench

# The pages are copied as they lie here, with whatever else they have links to. Not with --quiet: that hides the warnings
# from --strict as well.
docs: $(VENV)/.dev ## Build the documentation as a site into build/site, strictly: a link that leads nowhere ends it
	@rm -rf build/pages && mkdir -p build/pages
	@git ls-files '*.md' '*.png' LICENSE proto examples deploy/observability | tar -cf - -T - | tar -xf - -C build/pages
	NO_MKDOCS_2_WARNING=1 mkdocs build --strict

dashboard: $(VENV)/.dev ## Write deploy/observability/dashboard.json anew from its code; the chart gets it by `make manifests`
	python deploy/observability/dashboard.py > deploy/observability/dashboard.json

manifests: $(VENV)/.dev ## Write deploy/kubernetes anew from the Helm chart
	python -m tests.deploy.manifests

image: ## Build the container image with docker, podman or buildah
	deploy/build-image.sh

# From an environment that is made as the image makes its own (deploy/Dockerfile).
sbom: $(VENV)/.dev ## Write the bill of materials of the image, CycloneDX, into build/a2a-grpc.cdx.json
	@rm -rf build/sbom && python -m venv --without-pip build/sbom
	@python -m pip download --quiet --only-binary :all: --require-hashes --dest build/sbom/wheels -r requirements.txt
	@python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir build/sbom/wheels .
	@python -m pip --python build/sbom/bin/python install --quiet --no-index --find-links build/sbom/wheels a2a-grpc
	cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --of JSON \
	  -o build/a2a-grpc.cdx.json build/sbom/bin/python
