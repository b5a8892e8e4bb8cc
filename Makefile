# The whole vocabulary of this repository. `make help` lists it.

CARGO ?= cargo
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

.PHONY: help
help: ## list these targets
	@echo "netferry: change the network of a running Kubernetes cluster without losing it"
	@echo
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: need-root ## see it work: the MTU of a running cluster changes and nothing is lost (needs root)
	@scripts/setup
	$(CARGO) build -p netferry-cli -p netferry-cni
	@$(CARGO) run --quiet -p netferry-cli -- demo

.PHONY: test
test: need-root check setup ## everything CI runs: check, set-up of what is missing, all tests (needs root)
	@$(CARGO) build -p netferry-cni # beside netferry, where labs look for it
	@assets="$$(scripts/kube-assets)" && NETFERRY_KUBE_ASSETS="$$assets" $(CARGO) test --workspace

.PHONY: check
check: ## format, lints, licences and pure tests (no root, nothing installed on the system)
	@$(CARGO) fmt --version >/dev/null 2>&1 || rustup component add rustfmt
	@$(CARGO) clippy --version >/dev/null 2>&1 || rustup component add clippy
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) clippy -p netferry-cli --test soak -- -D warnings
	scripts/deny check bans licenses sources
	$(CARGO) test --workspace --lib --bins

.PHONY: setup
setup: # install missing system packages, build the real control plane, the CNI client, Helm and promtool once
	@scripts/setup
	@scripts/kube-assets >/dev/null
	@scripts/cnitool >/dev/null
	@scripts/helm >/dev/null
	@scripts/promtool >/dev/null

.PHONY: need-root
need-root:
	@[ "$$(id -u)" = 0 ] || { echo 'make $(MAKECMDGOALS): needs root, to install packages and to use network namespaces: sudo env "PATH=$$PATH" make $(MAKECMDGOALS) (make check needs no root)' >&2; exit 1; }

.PHONY: crds
crds: ## write deploy/crds/*.yaml from the API types
	$(CARGO) run --quiet -p netferry-cli -- crds --dir deploy/crds

.PHONY: image
image: need-root ## the container image as an OCI archive, under target/image (builds for release; needs root and Debian)
	@scripts/image

.PHONY: image-check
image-check: need-root ## build the image in two clones of HEAD in different directories: one digest (two release builds)
	@scripts/image-check

.PHONY: e2e
e2e: setup ## the Helm chart and the alerts, by Helm and promtool; the chart compared with the kustomization (root for setup)
	$(CARGO) test -p netferry-api --test chart --test alerts

.PHONY: docs
docs: ## rustdoc, man pages and shell completions, under target/
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps
	@mkdir -p target/man target/completions
	@$(CARGO) build --quiet -p netferry-cli
	$(CARGO) run --quiet -p netferry-cli -- man --dir target/man
	@for s in bash zsh fish; do $(CARGO) run --quiet -p netferry-cli -- completions $$s > target/completions/netferry.$$s; done
	@echo "target/doc, target/man, target/completions"

.PHONY: bench
bench: need-root ## API server, attaching pods, a large cluster, changes, the operator; writes docs/bench.md (builds for release, minutes; needs root)
	@scripts/setup
	$(CARGO) build --release -p netferry-cli -p netferry-cni
	@assets="$$(scripts/kube-assets)" && \
		target="$$($(CARGO) metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')" && \
		NETFERRY="$$target/release/netferry" && NETFERRY_KUBE_ASSETS="$$assets" && \
		page="$(CURDIR)/docs/bench.md" && export NETFERRY NETFERRY_KUBE_ASSETS && \
		$(CARGO) bench -p netferry-apiserver -p netferry-lab -p netferry-agent -p netferry-operator \
			--bench side_by_side --bench node --bench scale --bench change -- --write "$$page"

.PHONY: lab
lab: need-root ## a cluster of three nodes on this machine, until `netferry lab down` (needs root)
	@scripts/setup
	$(CARGO) build -p netferry-cli -p netferry-cni
	@$(CARGO) run --quiet -p netferry-cli -- lab up

.PHONY: soak
soak: need-root setup ## large labs, whole matrices of faults, 10 000 simulated changes; writes docs/soak.md (hours; SCENARIOS="a b" for some)
	@$(CARGO) build --release -p netferry-cli -p netferry-cni
	@assets="$$(scripts/kube-assets)" && NETFERRY_KUBE_ASSETS="$$assets" \
		$(CARGO) test --release -p netferry-cli --test soak -- $(SCENARIOS)
