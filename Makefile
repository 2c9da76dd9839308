# What one does with this repository. The servers' part is scripts/servers.sh, see docs/servers.md.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS   += --no-print-directory

GO       ?= go
FUZZTIME ?= 10s
COUNT    ?= 6
CELLS    ?=
ROUNDS   ?= 10
ROUND    ?= 400ms

servers := scripts/servers.sh
# Tools are built with the Go at hand, since golangci-lint refuses to read code for a newer Go than its own.
bin     := .local/bin/$(shell $(GO) env GOVERSION)
# Ours only: .local has the sources of nothing, but a formatter should not have to find that out.
gofiles  = $$(find . -name .local -prune -o -name '*.go' -print)

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^##@ / { print "\n" substr($$0, 5) } /^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ servers

.PHONY: up up-galera down status env logs
up: ## start RocketMQ, Redis (single, Cluster, Sentinel), MySQL and MariaDB, or only SETS="redis …"; fetches what is missing
	@$(servers) up $(SETS)

up-galera: ## start a Galera cluster of three MariaDB servers; once started, the other commands mean it as well
	@$(servers) up galera

down: ## stop them
	@$(servers) down $(SETS)

status: ## what runs, and where
	@$(servers) status $(SETS)

env: ## where they are, as shell assignments: eval "$(make -s env)"
	@$(servers) env $(SETS)

logs: ## the files they log to: tail -F $(make -s logs)
	@$(servers) logs $(SETS)

##@ tests

.PHONY: test test-quick test-long cgo
# -count=1, since Go's cache of test results does not know what the servers would answer today.
#
# Ordered tests, and a few others by the name of Unraced, skip themselves under the race detector, since rocketmq-client-go itself
# races there; the second line runs them without it.
test: cgo ## everything, on real servers, which it starts; with the race detector
	@RMQDEDUP_REQUIRE_SERVERS=1 $(servers) with -- $(GO) test -race -count=1 -timeout 10m ./...
	@RMQDEDUP_REQUIRE_SERVERS=1 $(servers) with -- $(GO) test -count=1 -run 'Ordered|Unraced' ./internal/e2e/... ./internal/bench/... ./rmqtest/... ./examples/...

test-quick: ## what needs only Go; tests that need a server skip, unless the environment names one
	$(GO) test ./...

test-long: cgo ## also what takes minutes
	@RMQDEDUP_LONG=1 RMQDEDUP_REQUIRE_SERVERS=1 $(servers) with -- $(GO) test -race -count=1 -timeout 60m ./...
	@RMQDEDUP_LONG=1 RMQDEDUP_REQUIRE_SERVERS=1 $(servers) with -- $(GO) test -count=1 -timeout 60m -run 'Ordered|Unraced' ./internal/e2e/... ./internal/bench/... ./rmqtest/... ./examples/...

cgo: # the race detector is C
	@scripts/need.sh gcc:gcc,libc6-dev

.PHONY: fuzz bench bench-list bench-go bench-size bench-sweep bench-large test-galera
test-galera: cgo ## what is asked of a Galera cluster, on three nodes, which it starts
	@$(servers) with rocketmq galera -- $(GO) test -race -count=1 -timeout 20m -run Galera ./storage/mysql/... ./internal/e2e/...

fuzz: ## every fuzz target for FUZZTIME (10s)
	@scripts/fuzz.sh $(FUZZTIME)

# CELLS is a regular expression, in which make is to leave each $$ alone (hence value). RECORD=1 makes the table the one that later runs are compared with.
bench: ## the table of docs/performance.md, measured against floors: CELLS='redis' (all), ROUNDS=10, ROUND=400ms, RECORD=1 keeps it as the recorded one
	@scripts/need.sh redis-benchmark:redis-tools
	@$(servers) with rocketmq redis mysql mariadb -- scripts/bench.sh $(if $(RECORD),-record internal/bench/recorded.txt) -run '$(value CELLS)' -rounds $(ROUNDS) -round $(ROUND)

bench-list: ## the names of the cells that make bench measures
	@$(GO) run ./internal/bench -list -run '$(value CELLS)'

bench-go: $(bin)/benchstat ## Go's benchmarks, COUNT (6) times each, compared with the run before; kept in .local/bench
	@$(servers) with -- scripts/bench-go.sh $(bin)/benchstat $(COUNT)

bench-size: ## bytes a row of the MySQL table, on both servers
	@$(servers) with mysql mariadb -- $(GO) test -run '^$$' -bench Size -benchtime 1x -timeout 20m ./storage/mysql

bench-sweep: ## what a sweep of 200,000 rows costs the claims that go on meanwhile, beside one large DELETE
	@$(servers) with mysql mariadb -- $(GO) test -run '^$$' -bench Sweep -benchtime 1x -timeout 60m ./janitor

bench-large: ## a claim in a table of 10 million rows over one in an empty table; restarts the databases with a buffer pool of 2 GiB
	@$(servers) down mysql mariadb
	@RMQDEDUP_BUFFER_POOL=2G RMQDEDUP_LARGE=1 $(servers) with mysql mariadb -- $(GO) test -run '^$$' -bench Large -benchtime 5x -timeout 120m ./storage/mysql
	@$(servers) down mysql mariadb

##@ code

.PHONY: lint lint-format lint-vet lint-golangci lint-shell fmt clean
lint: lint-format lint-vet lint-golangci lint-shell ## gofmt, go vet, golangci-lint, shellcheck

lint-format:
	@files=$$(gofmt -l $(gofiles)); [[ -z $$files ]] || { echo "not formatted (make fmt):"; echo "$$files"; exit 1; }

lint-vet:
	$(GO) vet ./...

lint-golangci: $(bin)/golangci-lint
	$(bin)/golangci-lint run ./...

lint-shell:
	@scripts/shellcheck.sh

fmt: ## gofmt
	gofmt -w $(gofiles)

clean: down ## stop the servers; remove their data, their programs, built tools and benchmark results
	rm -rf .local

# Built once for a version (about a minute and a half on two cores), not run by "go tool": that would have to be called in
# tools/, and would link them anew wherever the build cache has been emptied.
$(bin)/golangci-lint: package := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(bin)/benchstat: package := golang.org/x/perf/cmd/benchstat
$(bin)/golangci-lint $(bin)/benchstat: tools/go.mod tools/go.sum
	@echo "building $(@F)" >&2
	@mkdir -p $(@D)
	@$(GO) -C tools build -o ../$@ $(package)
