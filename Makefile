# DTE edge gateway. Bare `make` prints this menu. Needs Go and make, nothing else.
SHELL       := /bin/bash
export CGO_ENABLED := 0
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
COMMANDS    := dted dtectl dtesim
CHAIN       ?= $(or $(DTED_CHAIN_DIR),var/fleet)
DEMO        ?= $(or $(DTED_DEMO_DIR),var/demo)
PROOF_MINUTES ?= 240

.PHONY: help run build test times check bench bench-shares bench-online bench-peers bench-chain bench-fleet bench-large run-fleet screenshots soak alerts race vuln cross clients languages package install-test proof mutants seeded clean

help: ## this menu
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: build ## run a branch appliance with the simulated authority, in the foreground (DAY=2027-01-01: on a later day; LAW="FILE …": bundles that the authority takes for law)
	@exec bin/dtectl demo --dir $(DEMO) $(if $(DAY),--day $(DAY)) $(foreach file,$(LAW),--law $(file))

run-fleet: build ## run a chain: an S3 server (built on first use, some minutes), three branches, the simulated authority, in the foreground
	@store="$$(go tool -modfile=engine/archive/archivetest/versitygw.mod -n versitygw)" && exec bin/dtectl demo --chain --store "$$store" --dir $(CHAIN)

build: ## build dted, dtectl and dtesim into bin/
	@mkdir -p bin
	@go build -trimpath -ldflags='-s -w' -o bin/ $(addprefix ./cmd/,$(COMMANDS))

# Most packages' heaps are some MiB: collected at Go's usual 100 %, they would take a third of the time of a run.
test race times: export GOGC = 400

# make check vets. Without debug information a binary is linked in two thirds of the time. Some tests wait more than they
# compute: one package more than cores keeps the cores busy.
test: ## the whole suite; its last line says how many tests were skipped, and for want of what
	@set -o pipefail; go test -p $$(($$(nproc) + 1)) -vet=off -ldflags='-s -w' -json -timeout 30m $(or $(PACKAGES),./...) | go run ./cmd/cmdtest/summary

times: ## processor seconds of each package's tests and of what they start, the most first; 480 in all is the budget, four minutes of two cores
	@TIMES="$$(mktemp)"; export TIMES; trap 'rm -f "$$TIMES"' EXIT; \
	go test -vet=off -ldflags='-s -w' -count=1 -timeout 30m -exec '$(CURDIR)/.ci/times' $(or $(PACKAGES),./...) >/dev/null || failed='; some tests fail'; \
	sort -rn "$$TIMES" | head -n 20; awk -v failed="$$failed" '{ s += $$1 } END { printf "%.1f in all, of 480%s\n", s, failed; exit s > 480 || failed }' "$$TIMES"

check: ## format, vet, lint, go.mod, both architectures, race tests of the concurrent packages, clean tree
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo 'not gofmt-ed:'; gofmt -l $$(git ls-files '*.go'); exit 1; }
	@large="$$(git ls-files -z | xargs -0 -I{} find {} -size +512k)"; test -z "$$large" || { echo "too large for a source: $$large"; exit 1; }
	@go vet ./...
	@go run $(STATICCHECK) ./...
	@go mod tidy -diff
	@$(MAKE) --no-print-directory cross
	@$(MAKE) --no-print-directory alerts
	@$(MAKE) --no-print-directory race
	@git diff --exit-code --stat HEAD -- . || { echo 'the checks changed files'; exit 1; }

cross: ## build for both architectures
	@for a in amd64 arm64; do GOOS=linux GOARCH=$$a go build -o /dev/null ./... && echo "linux/$$a builds"; done

alerts: ## unit tests of the alerts, by promtool (built once into var/tools; says so and skips where its modules are out of reach)
	@if test -x var/tools/promtool || deploy/prometheus/promtool.sh >/dev/null; then go test -run '^(TestPromtool|TestAlerts_Week|TestDashboardQueries)$$' ./deploy; \
	else echo 'no promtool: unit tests of the alerts skipped'; fi

# Enumerations of crashes, repairs and restorations play one step at a time; make test runs them. Here they would take most of the time.
ONE_STEP := Crash|TestRestored|TestRestore|TestRebuild|TestRepair|TestLocate|TestRot|TestFsck|TestMark_|TestMoveMark|TestSecondCopy_Media|TestScrub_Fault|FailedSync|TestModel|TestEnding

race: ## race detector over the concurrent packages (needs a C compiler; says so and skips without)
	@if CGO_ENABLED=1 go test -race -short -run '^$$' ./storage >/dev/null 2>&1; then \
	  CGO_ENABLED=1 go test -race -short -timeout 40m -skip '$(ONE_STEP)' ./storage && \
	  CGO_ENABLED=1 go test -race -short -timeout 40m -skip 'TestRestored|CrashEverywhere|EndsAnywhere|TestSteps|AgreesWith|TestRate_|BadRecords|RestoredElsewhere|TestShelf_Replay|TwoDaysDown|Event_HalfDay|Event_WaitsHalf|TestLost$$|NumbersGame|BackPairs|Contingency_ClockWrong' ./rules ./engine/... ./gateway/...; \
	else echo 'no C compiler: race tests skipped'; fi

bench: ## the budgets, measured beside their limits
	@go test -timeout 30m -run '^TestBudgets$$' -v ./cmd/dted -args -budgets

bench-shares: ## of the budgets, those of one till that takes all it can beside a quiet one
	@go test -timeout 30m -run '^TestShares$$' -v ./cmd/dted -args -budgets

bench-online: ## what a sale costs while MH answers, beside the same sale while MH is away
	@go test -timeout 30m -count=1 -run '^TestOnline$$' -v ./cmd/dted -args -budgets

bench-peers: ## a sale of ten lines by the appliance and by two plain services on PostgreSQL, in Go and in Node, side by side (needs PostgreSQL and Node, fetches libraries; says so and skips without)
	@go test -timeout 30m -count=1 -run '^TestPeers$$' -v ./cmd/dted -args -peers

bench-chain: ## what a chain costs a sale: the agent, a silent store, shipping beside and before the answer
	@go test -timeout 30m -count=1 -run '^TestFleetSale$$' -v ./cmd/dted -args -budgets

bench-fleet: ## a chain of 5,000 branches on a real object store, two hours in some minutes: time to all, requests, what harms, what is stolen (DTE_FLEET_N=5000, DTE_FLEET_STORE=gofakes3 or versitygw)
	@go test -timeout 60m -count=1 -run '^TestChain$$' -v ./cmd/dtectl/fleet -args -fleet

bench-large: ## a branch with years of documents: start, memory, fsck, backup (DTE_LARGE_N=1000000, DTE_LARGE_DIR)
	@DTE_LARGE=1 go test -timeout 4h -run '^TestLarge$$' -v ./cmd/dtectl

screenshots: ## the pictures of deploy/pictures, made anew: pages and a ticket of the demonstrations (needs Chromium and pdftoppm)
	@DTE_SCREENSHOTS=$(CURDIR)/deploy/pictures go test -count=1 -timeout 20m -run '^TestREADME' ./cmd/dtectl
	@cd deploy/pictures && { test -f status-1000.png || { echo 'no pictures: Chromium or pdftoppm is not installed here'; exit 1; }; } && \
	  mv status-1000.png status.png && mv chain-1000.png chain.png

soak: ## the long versions of the property, oracle and crash tests, every seeded bug of cmd/cmdtest/mutant, and every benchmark once
	@DTE_SOAK=1 go test -bench . -benchtime 1x -timeout 90m ./...

proof: ## power cuts of running appliances, branch-months, and months of chains whose media are swapped, as many as fit into PROOF_MINUTES (240), with what was checked (SEED=1)
	@set -o pipefail; go test -timeout 72h -count=1 -run '^TestStorm$$' -v ./cmd/dted -args -storm=$$(($(PROOF_MINUTES) * 20))s -storm-seed=$(or $(SEED),1) | grep -vE '^(=== |    --- |20.* INFO )'
	@set -o pipefail; DTE_SEED=$(SEED) go test -timeout 72h -count=1 -run '^Test(Chain)?Month$$' -v ./engine ./engine/fleet -args -months=$$(($(PROOF_MINUTES) * 20))s | grep -vE '^(=== |    --- |20.* INFO )'

seeded: ## the seeded bugs of cmd/cmdtest/mutant, each of which a test must notice (PART=3/8: an eighth)
	@go test -timeout 90m -count=1 -run '^TestSeeded$$' ./cmd/cmdtest/mutant -args -part=$(or $(PART),1/1)

mutants: ## mutants made of storage, engine, rules, plugins/sdk and gateway, and which of them the suite notices; an hour of two cores (MUTANTS=200 SEED=1 JOBS=2)
	@nice -n 19 go test -timeout 12h -count=1 -run '^TestMade$$' -v ./cmd/cmdtest/mutant -args -mutants=$(or $(MUTANTS),200) -seed=$(or $(SEED),1) -jobs=$(or $(JOBS),2)

languages: ## the rule of rules/abi in AssemblyScript, C, Rust and TinyGo, held against the ABI (installs compilers from npm and Debian; says so and skips what is out of reach)
	@DTE_INSTALL=1 go test -timeout 20m -count=1 -run '^TestLanguages$$' -v ./rules/abi/abitest | grep -vE '^=== |INFO rule module'
	@DTE_INSTALL=1 go test -count=1 -run '^TestRules_AnotherLanguage$$' -v ./cmd/dtectl | grep -E '^---'

clients: ## a sale by a Go, a TypeScript and a Python client, generated from the contract (installs generators into var/clients; says so and skips what is out of reach)
	@echo 'installs generators of clients into var/clients'
	@go test -timeout 20m -count=1 -run '^TestGeneratedClients$$' -v ./cmd/dted -args -generated

vuln: ## known vulnerabilities (needs the vulnerability database's host)
	@go run $(GOVULNCHECK) ./...

package: ## the .deb of both architectures, in var/dist (VERSION=1.2.3, RULES_KEY=FILE signs its rules)
	@RULES_KEY='$(RULES_KEY)' deploy/package.sh $(VERSION)

install-test: ## the runbook's commands in a Debian root made for it (root; takes Debian packages of mmdebstrap and systemd-container, and a Debian mirror, and says so and skips without)
	@deploy/install-test.sh

clean: ## remove what was built and the demo
	@rm -rf bin var
