# Everything a developer runs. `make help` lists the targets.

GO      ?= go
# The tests of internal/tests use what is deprecated of MCP and its SDKs on purpose (SA1019).
COMMA   := ,
STATIC   = GOGC=400 $(GO) tool -modfile=$(CURDIR)/internal/tools/go.mod staticcheck
FUZZTIME ?= 30s
# Only e2e-models may demand the model servers: while the other tests run, CI builds them.
unexport REQUIRE_MODELS
# A program with the race detector waits for a second before it ends, in case that goroutines are left that race. The
# tests count what is left at their end; 130 packages and the processes that they start would wait for minutes.
export GORACE ?= atexit_sleep_ms=20

# The module of tests and programs that users of the project do not need; see its doc.go.
NESTED := cd internal/tests &&
# The tests on model servers are a step of their own: they need them built, and a quiet machine.
# Of the others two are tested at once, the benchmarks alone.
AT_ONCE = $$($(GO) list ./... | grep -vE '/(benchmarks|e2e/models)$$')

# internal/archtest reads sources in one goroutine: the race detector has nothing to look for in it.
RACED   = $$($(GO) list ./... | grep -v '/internal/archtest$$')

# The packages that have benchmarks: with -bench packages are tested one after the other.
BENCHED = $$(grep -rlE '^func Benchmark' --include='*_test.go' --exclude-dir=tests . | xargs -n 1 dirname | sort -u)

# The module of agents that are measured beside ours; the programs of other projects take minutes to
# build, so only make bench-turns does.
BESIDE := cd benchmarks &&
OURS   = . ./turn ./programs/floor

# run STEP,COMMAND prints how long a step of make check took. A step of behind gets the CPU that the tests beside it leave.
step   = start=$$(date +%s); printf '== %s\n' '$(1)'; $(2) || { echo "FAILED: $(1)"; exit 1; }; printf '== %s: %ss\n' '$(1)' "$$(( $$(date +%s) - start ))"
run    = @$(call step,$(1),$(2))
behind = @renice -n 15 $$$$ >/dev/null; $(call step,$(1),$(2))

.PHONY: help
help: ## list the targets, and how long they take
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sort | awk -F':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

.PHONY: build
build: ## build bin/troupe and the example servers (1 minute, the first time)
	$(GO) build -trimpath -o bin/ ./cmd/troupe ./examples/...

.PHONY: demo
demo: ## an agent does a small job with tools of real MCP servers; a script plays the model, unless MODEL names one (20 seconds)
	@$(NESTED) $(GO) run ./demo $(if $(MODEL),-m $(MODEL))

.PHONY: test
test: ## the quick tests (3 minutes)
	$(GO) vet ./...
	$(GO) test -short ./...
	$(NESTED) $(GO) vet ./... && $(GO) test -short $$($(GO) list ./... | grep -v -e /compare$$ -e /e2e/models$$)

# make check does two steps at once where one of them leaves time: what looks at sources only beside tests, and conformance,
# which waits half of its time, beside tests with the race detector. After a failure no step begins. Half of the time is that of compilers:
# they end before it is worth their time to collect garbage, and write nothing for debuggers; the tests, which would inherit such
# settings themselves, do not get these.
check: export GOFLAGS += '-toolexec=env GOGC=off GOMEMLIMIT=2GiB' -gcflags=all=-dwarf=false
.PHONY: check
check: needs ## everything, which is what CI runs (27 minutes on two cores, less with warm caches; models comes on top, once)
	@$(MAKE) -s --no-print-directory -j 2 check-demo
	@echo '== all of make check passed'

# The plain run has all tests, and each benchmark and fuzz seed once. The run with the race
# detector has the same packages but internal/archtest, of internal/tests those in which the code at work
# is in the process of the test; what takes long there is smaller (mcptest.Race). Step vet vets both. SQLite's C code,
# which the detector does not look into, is compiled for it in a third of the time.
RACE = CGO_CFLAGS=-O1 $(GO) test -vet=off -race

.PHONY: check-gofmt check-vet check-staticcheck check-tests check-benchmarks check-race check-cross check-nested check-beside check-nested-race check-conformance check-models check-demo
check-gofmt:
	$(call run,gofmt,test -z "$$(gofmt -l . | tee /dev/stderr)")
check-vet: check-gofmt
	$(call run,vet,$(GO) vet ./... && ($(NESTED) $(GO) vet ./...) && ($(BESIDE) $(GO) vet $(OURS)) && $(BESIDE) cd programs/troupe && $(GO) vet .)
check-staticcheck: check-vet
	$(call behind,staticcheck,$(STATIC) ./... && ($(NESTED) $(STATIC) -checks inherit$(COMMA)-SA1019 ./...) && $(BESIDE) $(STATIC) $(OURS))
check-tests: check-vet
	$(call run,tests,$(GO) test -vet=off ./...)
check-benchmarks: check-tests
	$(call run,benchmarks once,$(GO) test -vet=off -run '^$$' -bench . -benchtime 1x $(BENCHED))
check-race: check-benchmarks
	$(call run,tests with the race detector,$(RACE) $(RACED))
check-cross: check-benchmarks check-staticcheck
	$(call behind,without a C compiler and for other systems,$(MAKE) -s cross)
check-nested: check-race
	$(call run,tests of internal/tests,$(NESTED) $(GO) test -vet=off $(AT_ONCE) && $(GO) test -vet=off -bench . -benchtime 1x ./benchmarks)
check-conformance: check-nested check-cross
	$(call run,conformance,$(NESTED) $(GO) run ./conformance)
check-beside: check-nested
	$(call run,tests of benchmarks,$(BESIDE) $(GO) test -vet=off .)
check-nested-race: check-beside
	$(call run,tests of internal/tests with the race detector,$(NESTED) $(RACE) ./hostile/... ./interop ./conformance/probe && $(RACE) -skip '^Test(Serve|RealServers|KilledServer|Browser|Program)$$' ./e2e ./e2e/auth)
check-models: check-nested-race check-conformance
	$(call run,real model servers,$(MAKE) -s e2e-models SOFT=$(if $(REQUIRE_MODELS),,-soft))
check-demo: check-models
	$(call run,demo,$(NESTED) $(GO) run ./demo)

# Without a C compiler Linux differs in the stores only. For other systems a type checker looks at all packages and
# their tests: to compile all that they import would take minutes.
.PHONY: cross
cross: ## build without a C compiler, and check the types on macOS and Windows (1 minute)
	@CGO_ENABLED=0 $(GO) build ./store/sqlite/... ./examples/notebook
	@$(NESTED) $(GO) run ./systems darwin/arm64 windows/amd64

# A release does not go out without it. It fails as well where nothing could be looked up, and says so.
.PHONY: vulncheck
vulncheck: ## look for known vulnerabilities in what is linked (2 minutes; VULNDB=URL is another database)
	@out=$$(mktemp); trap 'rm -f $$out' EXIT; \
	$(GO) tool -modfile=$(CURDIR)/internal/tools/go.mod govulncheck $(if $(VULNDB),-db $(VULNDB)) ./... >$$out 2>&1; status=$$?; cat $$out; \
	if grep -q 'fetching vulnerabilities' $$out; then \
		echo 'vulncheck: the database of vulnerabilities cannot be reached, so nothing was looked up: name a copy of it with VULNDB=file:///… or try again with a network'; fi; \
	exit $$status

.PHONY: needs
needs:
	@command -v gcc >/dev/null || { echo "a C compiler is missing (Debian: apt-get install gcc)"; exit 1; }
	@command -v npm >/dev/null || { echo "npm is missing (Debian: apt-get install npm, or Node 20 from nodejs.org): the end-to-end tests talk to real MCP servers"; \
		test -z "$(REQUIRE_PEERS)"; }
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { echo "Chromium is missing (Debian: apt-get install chromium): tests look at pages with it"; \
		test -z "$(REQUIRE_PEERS)"; }

.PHONY: models
models: ## build the real model servers that tests talk to, once (10 minutes of two cores)
	@$(NESTED) $(GO) run ./modelservers/build $(SOFT)

.PHONY: e2e-models
e2e-models: models ## the tests on real model servers: Ollama and llama-server (40 seconds)
	@$(NESTED) REQUIRE_MODELS=$(if $(SOFT),,1) $(GO) test -count 1 ./e2e/models

# A test that fails is not to be hidden by the filter behind it.
kill-matrix chaos: SHELL = bash
kill-matrix chaos: .SHELLFLAGS = -o pipefail -c

.PHONY: kill-matrix
kill-matrix: ## kill a process, or have it stand still, its disk full, its store locked, the clock jump, at every commit and every effect of runs of each kind, and of jobs on two workers (15 minutes)
	@$(NESTED) KILL_MATRIX=whole $(GO) test -p 1 -count 1 -timeout 60m -v -run KillMatrix ./killmatrix ./chaos | grep -vE '^=== (RUN|PAUSE|CONT)'

# Of a seed the schedule of faults is the same each time, and not when a process comes to do what.
.PHONY: chaos
chaos: ## random faults on workers that share a store (1 minute a round; SEED=1 ROUNDS=10 JOBS=40 WORKERS=3 DURATION=30s, KEEP=folder for stores and logs)
	@$(NESTED) CHAOS_SEED=$(SEED) CHAOS_ROUNDS=$(ROUNDS) CHAOS_JOBS=$(JOBS) CHAOS_WORKERS=$(WORKERS) CHAOS_DURATION=$(DURATION) CHAOS_KEEP=$(abspath $(KEEP)) \
		$(GO) test -count 1 -timeout 24h -v -run '^TestChaos$$' ./chaos | grep -vE '^=== (RUN|PAUSE|CONT)'

.PHONY: check-long
check-long: ## what make check has no time for: the whole kill matrix, and chaos with 20 seeds that no commit had (40 minutes)
	@$(MAKE) -s --no-print-directory kill-matrix
	@$(MAKE) -s --no-print-directory chaos SEED=$(or $(SEED),$(shell date +%s)) ROUNDS=$(or $(ROUNDS),20)

.PHONY: rules
rules: ## write the tests that cite each rule into docs/protocol.md (1 second)
	@$(NESTED) $(GO) run ./rules -w

.PHONY: metrics
metrics: ## the figures of docs/design.md: files, lines, arrows, methods, mutexes, exported names (1 minute)
	@$(NESTED) $(GO) run ./metrics

.PHONY: conformance
conformance: ## the official conformance suite against client, server and authorization server (2 minutes; ARGS='-part server -v -run tools-list')
	@$(NESTED) $(GO) run ./conformance $(ARGS)

.PHONY: bench
bench: bench-servers ## the benchmarks of docs/performance.md, floors beside them (20 minutes)
	$(GO) test -run '^$$' -bench . -benchmem ./mcp ./actors/... ./agent ./mcpserver ./mcpclient ./store/...
	$(NESTED) $(GO) test -run '^$$' -bench . -benchmem ./benchmarks

.PHONY: bench-servers
bench-servers: ## the server beside go-sdk, mcp-go and a floor (5 minutes; ARGS='-full -run stdio')
	@$(NESTED) $(GO) run ./compare $(ARGS)

.PHONY: bench-turns
bench-turns: ## an agent's turn beside eino, fantasy, adk-go, DBOS and a floor (15 minutes; ARGS='-reps 3 -at 100 -live 1000', -http for a model over HTTP)
	@$(BESIDE) $(GO) run . $(ARGS)

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (30 seconds each)
	@$(GO) list ./... | while read -r pkg; do \
		for target in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
			echo "-- $$pkg $$target"; $(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x $$pkg || exit 1; \
		done; \
	done
