# The commands that people and CI call. Each works on a fresh Debian or Ubuntu machine with a Rust toolchain, make and git.
.DEFAULT_GOAL := help
.PHONY: help setup quickstart test check bench

CARGO ?= cargo

help: ## Lists the targets
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Installs what is missing (redis-server 7 or newer, a linker), or says how to
	@sh scripts/setup.sh

quickstart: setup ## The main job: four topologies started, loaded, broken, judged; a report; under 90 s after the build
	$(CARGO) build --release --locked -p cli
	./target/release/locklab quickstart

test: setup ## Everything that a change must pass
	sh scripts/test.sh

check: setup ## `test` without the parts that start many servers
	sh scripts/test.sh --quick

bench: setup ## Criterion benches against servers that they start themselves
	$(CARGO) bench --locked --workspace
