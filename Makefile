# The commands that people and CI call. Each works on a fresh Debian or Ubuntu machine with a Rust toolchain, make and git.
.DEFAULT_GOAL := help
.PHONY: help setup setup-baselines quickstart test check bench instructions chaos soak servers peers control-plane seeds past-bugs redis-rs without-tls book package dist

CARGO ?= cargo
# Scenarios at a time: they wait more than they work.
JOBS ?= 3
SEEDS ?= 1000
FROM ?= 1
# Where cargo puts the program.
TARGET = $(or $(CARGO_TARGET_DIR),./target)
LOCKLAB = $(TARGET)/release/locklab

help: ## Lists the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Installs what is missing (redis-server 7 or newer, a linker), or says how to
	@sh scripts/setup.sh

setup-baselines: ## Installs etcd, MariaDB, PostgreSQL and ZooKeeper, which `locklab up etcd` and the like start, or says how to
	@sh scripts/baselines.sh

# Without the client of container engines, which is a quarter of the crates, and without TLS, whose cryptography is built in C; with little
# optimised but what is measured. `cargo build --release -p cli` has all.
quickstart: setup ## The main job: four topologies started, loaded, broken, judged; a report; about 40 s after the build
	$(CARGO) build --profile quickstart --locked -p cli --no-default-features
	"$(TARGET)/quickstart/locklab" quickstart

test: setup ## Everything that a change must pass
	sh scripts/test.sh

check: setup ## `test` without the parts that start many servers
	sh scripts/test.sh --quick

# LOCKLAB_CONTROL_PLANE=scripts/control-plane lets the tests of `kube` run with it.
control-plane: ## Builds the API server and the controllers of Kubernetes that the tests of `kube` need; with Go, about 6 min
	cd scripts/control-plane && go build -o control-plane .

seeds: ## SEEDS=1000 seeds of the library in simulated time, in a build for many of them, which takes up to half an hour; from FROM=1 on
	@CARGO=$(CARGO) sh scripts/seeds.sh $(FROM) $(SEEDS)

past-bugs: ## Puts bugs of the library that were fixed back, one at a time, and lets simulated time look for each; a minute of building for each
	sh scripts/past-bugs.sh

redis-rs: ## Whether what keeps the library from the newest redis-rs' connections is true still; 1 if not. A minute of building, then 40 s
	$(CARGO) run --manifest-path lock-core/clients/redis-rs/Cargo.toml --target-dir "$(TARGET)/redis-rs"

without-tls: ## A program with the library without TLS, which refuses rediss:// with the reason
	$(CARGO) run --locked -p lock-core --no-default-features --example hold -- rediss://127.0.0.1:1 2>&1 | grep 'without its feature `tls`'

bench: setup ## Each lock on each topology, with a table of cycles and ratios; starts its servers, under 10 min on 2 cores after the build
	$(CARGO) bench --locked

instructions: setup ## Counts instructions of the pure parts under valgrind; left out, with the reason, where a program for it is missing
	@CARGO=$(CARGO) sh scripts/instructions.sh

chaos: setup ## The whole suite of scenarios, controls included, with a JUnit file; under 10 min on 2 cores
	$(CARGO) build --release --locked -p cli
	"$(LOCKLAB)" chaos --all --jobs $(JOBS) --junit runs/chaos.xml

soak: setup ## SEEDS=1000 short runs with random faults on configurations that must stay clean; goes on where it was interrupted
	$(CARGO) build --release --locked -p cli
	"$(LOCKLAB)" soak --seeds $(SEEDS) --jobs $(JOBS)

servers: ## Gets Redis 7.2, 7.4 and 8, Valkey 8 and 9 into a cache, from this machine's package sources; `locklab list servers` shows them
	@sh scripts/servers.sh

peers: ## Builds the drivers of other libraries (`locklab list subjects peer:`) whose language is here, and names what the others need
	@sh scripts/peers.sh

book: ## The book as web pages in docs/book; left out, with the reason, where mdbook is missing
	@sh scripts/book.sh

package: ## lock-core as a registry takes it; REPOSITORY=https://… names the public address, else the remote `origin` does
	@CARGO=$(CARGO) sh scripts/package.sh

dist: ## What a release hands out, in dist/: archive, .deb, sums; with REPOSITORY=https://… also what fetches them from there; 15 min
	@CARGO=$(CARGO) sh scripts/dist.sh
