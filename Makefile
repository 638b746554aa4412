# Everything a developer runs. `make help` lists it.

GO        ?= go
# Only the race detector needs cgo. All other builds disable it, as releases do (ADR 44), so that all stages share
# what is compiled.
export CGO_ENABLED = 0
# The go command starts the tests of packages in this order. The longest ones come first: the last one runs alone, on
# one core.
PACKAGES   = ./simulation ./tools/mutants ./storage/... ./...
# The modules of this repository: cqld, and those whose requirements cqld itself must not have. tools/lint, which has no code, is
# left out: go mod tidy would download what the tests of every linter need.
MODULES    = . examples integration/drivers integration/drivers/go-gocqlx integration/drivers/go-ycsb \
             integration/firewall integration/stores tools/package
LINT       = $(GO) tool -modfile=$(CURDIR)/tools/lint/go.mod golangci-lint run --timeout 15m --allow-parallel-runners
RACE       = ./storage/... ./server/... ./coordinator/... ./paxos/... ./hints/... ./batchlog/... ./counters/... \
             ./listing/... ./search/... ./view/... ./replica/... ./repair/... ./rebalance/... ./cluster/... \
             ./messaging/...
# Prints the output of a target when it ends, so that two targets that run at the same time do not mix their output.
# GNU Make before 4.0 cannot do this.
APART      = $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)
TARGETS   ?= linux/$(shell $(GO) env GOARCH)
CROSS     ?= linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
SEED      ?= 1
N         ?= 100
NIGHT     ?= 10000
WEEKS     ?= 30m
T         ?= ./row
FUZZTIME  ?= 1m
RACE_FOR  ?= 10m
HOSTILE_FOR ?= 1h
LEVEL_FOR ?= 20m
ROWS      ?= 1000000

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | sort | expand -t 20

.PHONY: build
build: ## build bin/cqld, without cgo as releases are
	$(GO) build -o bin/cqld ./cmd/cqld

.PHONY: package
package: ## dist/: binary for Linux, Debian package, OCI image, compose and Kubernetes files, checksums (release: all systems)
	cd tools/package && $(GO) build -o ../../bin/package .
	bin/package -targets=$(TARGETS)

.PHONY: release
release: ## dist/ for Linux, macOS and Windows, amd64 and arm64
	$(MAKE) package TARGETS=all

.PHONY: cross
cross: ## compile for the systems in CROSS: by default, all of releases but this one's
	@for t in $(CROSS); do echo "$$t"; GOOS=$${t%/*} GOARCH=$${t#*/} $(GO) build -o /dev/null ./cmd/cqld || exit 1; done

.PHONY: package-test
package-test: ## packages, image, systemd unit, compose file and manifests: schemas, and nodes started from them (< 2 min)
	cd tools/package && $(GO) test -count=1 -timeout 10m ./...

.PHONY: run
run: build ## a ring of four nodes on this machine
	bin/cqld local

.PHONY: check
check: ## before every commit: format, modules, vet, linters, layers, short tests (up to 15 min on two cores)
	@start=$$(date +%s); for stage in fmt-check tidy-check generate-check vet lint short; do \
		echo "== $$stage"; began=$$(date +%s); $(MAKE) --no-print-directory $$stage || exit 1; \
		echo "== $$stage took $$(($$(date +%s)-began)) s"; done; \
	echo "== check took $$(($$(date +%s)-start)) s"

.PHONY: short
short: # one package more than there are cores at a time, because the tests of several mostly wait
	$(GO) test -vet=off -short -p $$((1+$$(getconf _NPROCESSORS_ONLN))) $(PACKAGES)

.PHONY: fmt-check
fmt-check:
	@bad=$$(git ls-files '*.go' | grep -v '^grammar/cql' | xargs gofmt -l); test -z "$$bad" || { echo "gofmt would change: $$bad"; exit 1; }

.PHONY: tidy-check
tidy-check:
	@for m in $(MODULES); do (cd $$m && $(GO) mod tidy -diff) || { echo "$$m/go.mod: run go mod tidy"; exit 1; }; done

.PHONY: generate-check
generate-check:
	tools/generate-check.sh

.PHONY: vet
vet: # all files of all build tags, so that go test need not do a part of it again
	$(GO) vet $(PACKAGES)
	$(GO) vet -tags integration,level,upgrade ./integration/...
	$(GO) vet -tags invariants ./internal/invariant
	@for f in $$(git grep -l '^//go:build race$$' -- '*.go'); do $(GO) vet $$f || exit 1; done
	@for m in $(filter-out .,$(MODULES)); do (cd $$m && $(GO) vet ./...) || exit 1; done

.PHONY: lint
lint: ## staticcheck, errorlint, revive, exhaustive and others in all modules, by golangci-lint; unreachable functions
	@for m in $(MODULES); do (cd $$m && $(LINT) ./...) || exit 1; done
	tools/deadcode-check.sh

.PHONY: test
test: ## everything: units, goldens, fuzz seeds, lint, race, simulation, drivers (up to 55 min on two cores)
	$(MAKE) -j2 $(APART) downloaded static
	$(MAKE) unit
	$(MAKE) -j2 $(APART) race package-test cross CROSS="darwin/arm64 windows/amd64"
	$(MAKE) integration

.PHONY: static
static:
	@for stage in fmt-check tidy-check vet; do $(MAKE) --no-print-directory $$stage || exit 1; done

.PHONY: downloaded
downloaded: # one after the other: both may execute Maven, which does not expect others in its repository
	@for stage in tools generate-check; do $(MAKE) --no-print-directory $$stage || exit 1; done

.PHONY: unit
unit: ## units, goldens, fuzz seeds, lint, simulation
	$(GO) test -vet=off -timeout 30m $(PACKAGES)

.PHONY: race
race: export CGO_ENABLED = 1
race: ## the replication packages under the race detector
	$(GO) test -vet=off -timeout 30m -short -race -tags invariants $(RACE)

.PHONY: race-ring
race-ring: tools ## a ring of real processes built with the race detector, under mixed load: RACE_FOR=10m (make test: 12 s of load)
	CQLD_RACE_RING=$(RACE_FOR) $(GO) test -tags integration -timeout 24h -count=1 -v -run 'TestRaceRing$$' ./integration

.PHONY: hostile
hostile: tools ## an ordinary role attacks a node with 1 GiB of memory: HOSTILE_FOR=1h (make test: 20 s)
	CQLD_HOSTILE=$(HOSTILE_FOR) $(GO) test -tags integration -timeout 24h -count=1 -v -run 'TestHostile$$' ./integration

.PHONY: level
level: tools ## the memory of a node at 200 requests a second, every minute: LEVEL_FOR=20m
	CQLD_LEVEL=$(LEVEL_FOR) $(GO) test -tags integration,level -timeout 24h -count=1 -parallel 2 -v \
		-run 'TestResidentMemoryIsLevel$$' ./integration

.PHONY: drill
drill: ## back up a ring of four under load, lose it, restore it to three nodes, twice: ROWS=1000000 (make test: 4000)
	CQLD_BACKUP_ROWS=$(ROWS) $(GO) test -tags integration -timeout 24h -count=1 -v -run 'TestDrill$$' ./integration

.PHONY: upgrade-test
upgrade-test: ## upgrade a ring from the build of a commit to this build and back, under load: FROM=v0.1.0
	tools/install.sh python
	CQLD_UPGRADE_FROM=$(FROM) $(GO) test -tags integration,upgrade -timeout 1h -count=1 -v \
		-run 'TestUpgradeBetweenBuilds$$' ./integration

.PHONY: integration
integration: tools ## real nodes under real drivers
	$(GO) test -vet=off -tags integration -timeout 30m -count=1 -parallel 4 ./integration/...

.PHONY: faults
faults: ## real faults of real processes, 25 times as long: 500 kills, 50 pauses
	CQLD_FAULTS=25 $(GO) test -tags integration -timeout 3h -count=1 -v -run 'TestKills|TestPauses|TestRolling|TestFull|TestCorrupt|TestPartitions|TestClocks' ./integration

.PHONY: differential
differential: ## N generated statements and requests on a ring and on the Cassandra at CQLD_ORACLE: N=50000
	$(GO) test -tags integration -timeout 24h -count=1 -v ./integration \
		-run 'TestGenerated(Statements|Objects|BesideObjects|Pages|Requests)AnswerAsCassandra' \
		-args -generated=$$(($(N)/5)) -generated-seed=$(SEED)

.PHONY: sim
sim: ## the simulated cluster: SEED=first seed, N=how many, ARGS='-shrink -workloads=… -kinds=… -faults=…'
	$(GO) test -tags invariants ./simulation -run 'TestSim$$' -v -count=1 -timeout 60m -args -seed=$(SEED) -seeds=$(N) $(ARGS)

.PHONY: sim-night
sim-night: ## ten thousand seeds, by one process for each core; NIGHT=how many, SEED=first seed
	@mkdir -p .tools/sim && $(GO) test -tags invariants -c -o .tools/sim/sim.test ./simulation
	@cores=$$(nproc); failed=0; for i in $$(seq 0 $$((cores-1))); do \
		( cd simulation && nice ../.tools/sim/sim.test -test.run 'TestSim$$' -test.v -test.timeout 24h \
			-seed=$$(($(SEED)+i)) -every=$$cores -seeds=$$(($(NIGHT)/cores)) >../.tools/sim/worker$$i.log 2>&1 ) & pids="$$pids $$!"; \
	done; for p in $$pids; do wait $$p || failed=1; done; \
	grep -hE 'seed [0-9]+:|run it again|smaller:|seeds, |faults: ' .tools/sim/worker*.log; exit $$failed

.PHONY: sim-weeks
sim-weeks: ## one simulated cluster that runs for days and weeks: WEEKS=real time, SEED=seed; nothing may be lost, or grow
	$(GO) test -tags invariants ./simulation -run 'TestSimSoak$$' -v -count=1 -timeout 24h -args -seed=$(SEED) -weeks=$(WEEKS)

.PHONY: mutants
mutants: ## one small fault at a time in the code that keeps data: which do the tests find? (hours; MUTANTS='-only=paxos/ -seeds=100')
	$(GO) run ./tools/mutants -workers=$$(nproc) $(MUTANTS)

.PHONY: fuzz
fuzz: ## fuzz one package: T=./row FUZZ=FuzzDecodeRow FUZZTIME=1m
	$(GO) test -tags invariants $(T) -run '^$$' -fuzz '$(FUZZ)' -fuzztime $(FUZZTIME)

.PHONY: rewrite
rewrite: ## rewrite the golden files; read the diff
	@for p in $$($(GO) list $(PACKAGES)); do \
		$(GO) test $$p -run . -args -h 2>&1 | grep -q -- '-rewrite' && $(GO) test $$p -args -rewrite || true; done

.PHONY: generate
generate: ## the parser, from the grammar (needs Java)
	$(GO) generate ./grammar

.PHONY: tools
tools: ## drivers and clients under test, into .tools
	tools/install.sh

.PHONY: oracle
oracle: ## record the transcripts' expected answers from a real Cassandra (needs Java 17, Maven, 2 GiB)
	tools/oracle/record

.PHONY: oracle-permissions
oracle-permissions: ## record the expected answers of the permission matrix and of functions_auth.txt from a real Cassandra (15 minutes)
	tools/oracle/record-permissions

.PHONY: bench
bench: build tools bench-tables ## the Tables server and Azurite, then cqld and Cassandra, each in one run: throughput, latency, CPU per operation
	$(GO) run ./integration/bench $(BENCH)

.PHONY: bench-tables
bench-tables: ## the Tables server and Azurite in one run; BENCH_TABLES='-rounds 1 -rows 1000' for a shorter one (< 12 min)
	tools/install.sh azurite
	$(GO) run ./integration/bench tables $(BENCH_TABLES)
