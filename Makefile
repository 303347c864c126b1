# The commands of this repository. `make` lists them; .ci/run is `make test` and `make test-real`.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

TOOL := go tool -modfile=go.tools.mod
# A module file of its own: the linters' 200 dependencies stay out of the tools'.
LINT := go tool -modfile=$(CURDIR)/go.lint.mod golangci-lint

# As a release is built, so that tests, linters and releases share what Go has compiled.
export GOFLAGS := $(strip $(filter-out -trimpath,$(GOFLAGS)) -trimpath)
export CGO_ENABLED := 0

# The race detector needs a C compiler, without which `go env CGO_ENABLED` is 0. `make test` uses it
# where goroutines share the most and little has to be compiled for it: in what all drivers are
# built on and wrapped in. `make race` uses it everywhere.
RACED = ./cloud ./cloud/wrap ./cloud/driverkit/... ./cloud/testing/cloudtest ./cloud/sim ./cloud/gcp/...
RACE ?= $(if $(filter 1,$(shell CGO_ENABLED= go env CGO_ENABLED)),-race)

.PHONY: help
help: ## list these targets
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

##  Run

# Compiling takes most of the time. Without optimization and debug information it takes half of it, with
# larger heaps less garbage collection. A control plane that has to be built for the demo is not optimized either, and
# has a folder of its own: the tests need an optimized one. The demo takes that one if it is there.
.PHONY: demo
demo: ## the main job on an embedded control plane and the simulated cloud; DEMO_ONESHOT=1 ends by itself
	@export GOGC=400 GOFLAGS="$(GOFLAGS) '-gcflags=all=-N -l -dwarf=false'"; \
	programs="etcd kube-apiserver kubectl"; \
	if [ -z "$${KUBEBUILDER_ASSETS:-}" ] && [ ! -x out/controlplane/kube-apiserver ]; then \
		export KUBEBUILDER_ASSETS="$$(test/controlplane/published out/envtest)"; \
		[ -n "$$KUBEBUILDER_ASSETS" ] || test/controlplane/build out/demo/controlplane $$programs; \
		KUBEBUILDER_ASSETS="$${KUBEBUILDER_ASSETS:-$(CURDIR)/out/demo/controlplane}"; \
	fi; \
	GOFLAGS="$(GOFLAGS)" test/controlplane/build out/controlplane $$programs; \
	go build -o out/demo/ ./test/demo/... ./cmd/simcloud; \
	GOGC=100 out/demo/demo

# MCM's own integration suite starts the manager with this target and these
# variables, and finds the process by how its command line begins.
CONTROL_KUBECONFIG ?= $(KUBECONFIG)
TARGET_KUBECONFIG  ?= $(CONTROL_KUBECONFIG)
CONTROL_NAMESPACE  ?= default
LEADER_ELECT       ?= true
MACHINE_SAFETY_OVERSHOOTING_PERIOD ?= 1m
ARGS ?=

.PHONY: start
start: ## the manager on CONTROL_KUBECONFIG and TARGET_KUBECONFIG, with more flags in ARGS
	@[ -n "$(CONTROL_KUBECONFIG)" ] || { echo "make start: set CONTROL_KUBECONFIG" >&2; exit 1; }
	@go build -o out/bin/machine-controller-manager ./cmd/manager
	@exec -a machine-controller-manager out/bin/machine-controller-manager \
		--control-kubeconfig="$(CONTROL_KUBECONFIG)" \
		--target-kubeconfig="$(TARGET_KUBECONFIG)" \
		--namespace="$(CONTROL_NAMESPACE)" \
		--leader-elect="$(LEADER_ELECT)" \
		--machine-safety-overshooting-period="$(MACHINE_SAFETY_OVERSHOOTING_PERIOD)" \
		$(ARGS)

##  Test

# Notes seconds and compiled packages of a step in out/steps.tsv.
STEP = .ci/step

# Packages whose tests need more than Go, make and git, or a release's builds for all platforms.
REAL = ./cloud/openstack/... ./test/openstack/... ./test/clouds/... ./test/guests/... ./test/e2e/autoscaler/... \
	./cmd/release/... ./cmd/kubectl-mcm/dashboard/...

# The linter has vetted everything. The timeout finds tests that hang, not slow machines.
GOTEST = out/bin/gotest
ARGS_OF_TESTS = -vet=off -count=1 -timeout 45m

.PHONY: test
test: ## lint, verify, and every test that needs Go, make and git alone
	@$(STEP) controlplane $(MAKE) controlplane
	@$(STEP) verify $(MAKE) verify
	@$(STEP) lint $(MAKE) lint
	@$(STEP) binaries $(MAKE) binaries gotest
	@$(STEP) tests $(MAKE) tests
	@$(STEP) monitoring $(SHELL) -c '$(MONITORING_TEST)'
	@$(STEP) tracing $(SHELL) -c '$(TRACING_TEST)'
	@$(STEP) mcmdriver $(SHELL) -c '$(MCMDRIVER_TEST)'
	@$(STEP) outside $(SHELL) -c '$(OUTSIDE_TEST)'

# What is built on top of these is tested without the race detector. Of the calls that a fault can hit in the kit, two
# are drawn for the clouds whose doubles need seconds for each; make conformance CLOUD=x tries all.
.PHONY: tests
tests:
	CLOUDTEST_DRAWS=2 $(GOTEST) $(RACE) $(ARGS_OF_TESTS) $(RACED) \
		-- $(ARGS_OF_TESTS) $$(comm -23 <(go list ./... | sort) <(go list $(RACED) $(REAL) | sort -u))

.PHONY: test-real
test-real: ## tests against real services, Cluster API's managers, a browser, a release and a guest
	@$(STEP) controlplane $(MAKE) controlplane
	@$(STEP) capi-build $(MAKE) capi
	@$(STEP) binaries $(MAKE) binaries gotest
	@$(STEP) tests-real $(MAKE) tests-real
	@# Of three writes of a migration one is drawn, after which its command is killed; make e2e tries all.
	@export MIGRATION_KILL_STEP=3; $(STEP) capi $(SHELL) -c '$(CAPI_TEST)'
	@$(STEP) chart $(SHELL) -c '$(CHART_TEST)'
	@$(STEP) bootdata $(SHELL) -c '$(BOOTDATA_TEST)'
	@$(STEP) published $(SHELL) -c '$(PUBLISHED_TEST)'
	@$(STEP) site $(SHELL) -c '$(SITE_TEST)'
	@$(STEP) guest test/guests/within $${GUEST_END:-3600}

# One OpenStack for all packages. Its services need seconds for each fault of the conformance kit, so
# that one of each kind is drawn; make conformance CLOUD=openstack tries all.
.PHONY: tests-real
tests-real:
	CLOUDTEST_DRAWS=1 $(GOTEST) -openstack $(ARGS_OF_TESTS) $(REAL)

PART ?=

.PHONY: nightly
nightly: ## what is exhaustive, of which the other tests draw; hours, and an ended run is continued: PART=worlds runs one part
	@.ci/nightly $(PART)

.PHONY: race
race: controlplane binaries gotest ## every test of this module under the race detector
	out/bin/gotest -openstack -race -vet=off -count=1 -timeout 60m ./...

# The programs that several test packages start, built once before they do.
.PHONY: binaries
binaries:
	@go build -o out/bin/cluster-api-provider-mcm ./cmd/manager
	@go build -o out/bin/simcloud ./cmd/simcloud

# Prints what go test -v prints, and at the end what failed.
.PHONY: gotest
gotest:
	@go build -o out/bin/gotest ./test/gotest

.PHONY: check
check: ## the inner loop, under a minute: vet, the house rules, unit tests of what changed
	@go vet ./...
	@go test -count=1 ./test/house
	@go test -short -vet=off $$(go list ./... | grep -v /test/house) | { grep -v 'no test files' || true; }

CLOUD ?= sim

.PHONY: conformance
conformance: ## the conformance kit on one cloud: CLOUD=sim
	@[ -d "cloud/$(CLOUD)" ] || { echo "make conformance: there is no cloud/$(CLOUD)" >&2; exit 1; }
	$(if $(RACE),CGO_ENABLED=1 )CLOUDTEST_MATRIX="$(CURDIR)/docs/clouds/conformance.md" go test $(RACE) -v -count=1 -timeout 90m ./cloud/$(CLOUD)/...

N    ?= 100
POOL ?= 10
BOOT ?= 10s

.PHONY: bench
bench: controlplane ## what N machines cost in pools of POOL: N=100 POOL=10 BOOT=10s; docs/performance keeps pools of ten
	@go run ./test/bench -n=$(N) -pool=$(POOL) -boot=$(BOOT)

SEEDS ?= 1000
FIRST ?=
SEED  ?=

.PHONY: simulate
simulate: ## the deterministic simulator in fresh worlds: SEEDS=1000, the same ones again: FIRST=x, or one of them: SEED=x
	@go run ./test/simulation -seeds=$(SEEDS) $(if $(FIRST),-first=$(FIRST)) $(if $(SEED),-seed=$(SEED))

MINUTES ?= 10

.PHONY: chaos
chaos: controlplane ## processes killed at random on a real control plane: MINUTES=10, or one schedule again: SEED=x
	@go run ./test/e2e/chaos -minutes=$(MINUTES) $(if $(SEED),-seed=$(SEED)) $(if $(RESTORES),-restores=$(RESTORES))

# Modules of their own: make verify fails where they do not follow the main one's
# dependencies, and go mod tidy in their folders mends that.
MODULE_TEST = "$(CURDIR)/out/bin/gotest" -count=1 -timeout 45m ./...
CAPI_TEST = cd test/e2e/capi && $(MODULE_TEST)
CHART_TEST = cd test/e2e/chart && $(MODULE_TEST)
MONITORING_TEST = cd test/monitoring && $(MODULE_TEST)
TRACING_TEST = cd test/tracing && $(MODULE_TEST)
MCMDRIVER_TEST = cd cloud/mcmdriver && $(MODULE_TEST)
OUTSIDE_TEST = cd test/outside && "$(CURDIR)/out/bin/gotest" -count=1 -timeout 45m .
PUBLISHED_TEST = cd test/outside && "$(CURDIR)/out/bin/gotest" -count=1 -timeout 45m ./published
BOOTDATA_TEST = cd test/bootdata && $(MODULE_TEST)
SITE_TEST = cd docs/site && $(MODULE_TEST)

.PHONY: e2e
e2e: controlplane capi gotest ## with the real Cluster API core manager and clusterctl, and with Helm
	@$(CAPI_TEST)
	@$(CHART_TEST)

AUTOSCALER ?=
API        ?= native

.PHONY: autoscaler
autoscaler: controlplane ## with a cluster-autoscaler binary: AUTOSCALER=path API=native|capi
	@[ "$(API)" = native ] || [ "$(API)" = capi ] || { echo "make autoscaler: API is native or capi, not $(API)" >&2; exit 1; }
	@[ -n "$(AUTOSCALER)" ] || echo "make autoscaler: AUTOSCALER names no binary, so only the test that plays the autoscaler runs"
	@[ "$(API)" = native ] || $(MAKE) capi
	@export AUTOSCALER="$(if $(AUTOSCALER),$(abspath $(AUTOSCALER)))"; \
	if [ "$(API)" = native ]; then go test -v -count=1 -timeout 30m ./test/e2e/autoscaler; \
	else cd test/e2e/capi && go test -v -count=1 -timeout 30m -run '^TestAutoscaler$$' .; fi

KUBEADM ?=

.PHONY: guests
guests: controlplane binaries capi ## machines whose whole life is real, on both APIs: Nova with libvirt, cloud-init, kubelet; ACCEL=kvm where there is VT-x or AMD-V; KUBEADM=1: a control plane, too
	@image=$$(test/guests/build out/guest); export GUEST_IMAGE="$$image"; \
	go test -v -count=1 -parallel 1 -timeout 3h -skip '^TestGuest$$' ./test/guests && \
	go test -v -count=1 -parallel 1 -timeout 2h -run '^(TestBootData|TestGeneratedNode)$$' ./test/clouds && \
	(cd test/e2e/capi && go test -v -count=1 -timeout 3h -run '^TestRealGuests$$' .)
	@[ "$(KUBEADM)" = 1 ] || { echo "make guests: no control plane is made on guests: KUBEADM=1 does that, too"; exit 0; }; \
	image=$$(test/guests/build out/guest out/controlplane); export GUEST_CONTROL_PLANE_IMAGE="$$image" KUBEADM=1; \
	cd test/e2e/capi && go test -v -count=1 -timeout 3h -run '^TestRealControlPlane$$' .

.PHONY: guest
guest: controlplane binaries ## one of these machines, on the native API: it joins, is drained, and goes
	@image=$$(test/guests/build out/guest); export GUEST_IMAGE="$$image"; \
	go test -v -count=1 -timeout 1h -run '^TestGuest$$' ./test/guests

##  Build

.PHONY: controlplane
controlplane: ## etcd, kube-apiserver, kube-controller-manager and kubectl from source, once; KUBEBUILDER_ASSETS overrides
	@test/controlplane/build out/controlplane

.PHONY: capi
capi: ## Cluster API's managers and clusterctl from source, once
	@test/e2e/capi/build out/capi

.PHONY: generate
generate: ## deep copies, CRDs, their reference and dashboards
	@$(TOOL) controller-gen object crd paths=./api/... output:crd:dir=config/crd
	@go run ./cmd/dashboards
	@go run ./cmd/reference

GENERATED = find config/crd config/monitoring/dashboards api docs/api/reference \( -name 'zz_generated.*' -o -path 'config/crd/*.yaml' -o -name '*.json' -o -name '*.md' \) -type f -print0 | sort -z | xargs -0 sha256sum

.PHONY: verify
verify: ## generated files, formatting and go.mod are clean
	@before=$$($(GENERATED)); $(MAKE) generate; after=$$($(GENERATED)); \
	diff <(echo "$$before") <(echo "$$after") >&2 || { echo "make verify: generated files were stale; commit what make generate wrote" >&2; exit 1; }
	@unformatted=$$(gofmt -l .); \
	[ -z "$$unformatted" ] || { printf 'make verify: not formatted, run gofmt -w:\n%s\n' "$$unformatted" >&2; exit 1; }
	@for module in $$(git ls-files '*go.mod'); do \
	  go -C "$$(dirname "$$module")" mod tidy -diff || { echo "make verify: $$module is stale; run go mod tidy there" >&2; exit 1; }; \
	done

.PHONY: lint
lint: ## the linters and formatters of .golangci.yml, vet among them
	@$(LINT) run ./...
	@for module in cloud/mcmdriver test/outside test/e2e/capi test/e2e/chart test/monitoring test/tracing test/bootdata docs/site; do (cd "$$module" && $(LINT) run ./...); done

.PHONY: docs
docs: ## out/docs: the documentation as a site with search, which needs no server
	@go -C docs/site run . -root "$(CURDIR)" -out "$(CURDIR)/out/docs"

.PHONY: release
release: ## out/release: everything that a release has; VERSION=v0.1.0, PUSH=1 and KEY=cosign.key publish the image
	@go run ./cmd/release -artifacts -out out/release $(if $(VERSION),-version=$(VERSION)) \
	  $(if $(IMAGE),-image=$(IMAGE)) $(if $(PUSH),-push) $(if $(KEY),-key=$(KEY))
