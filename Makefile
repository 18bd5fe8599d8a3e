# Verbs only: each recipe is one line.
.PHONY: help setup demo test lint generate verify image clean

help: ## What can be made
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'
setup: ## Install what building and the lab need (once a machine)
	@hack/setup
demo: ## Show the product in a real Kubernetes, from nothing to a Service that survives its node
	@hack/demo
test: ## All tests: unit, property, packets in namespaces, the whole product in the lab
	@hack/test
lint: ## Format, clippy, licences, shell, stray files, arrows between crates
	@hack/lint
generate: ## Write the generated files anew
	@hack/generate
verify: ## Check that the generated files are what the code generates
	@hack/verify
image: ## Build target/image/ferrolb.tar
	@hack/image
clean: ## Take the lab down
	@hack/lab down
