# Only forwards: the build is Meson's, the set-up is scripts/setup.sh's.
BUILD ?= build

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

run: deps-run setup ## the gateway on port 8080 in front of a demo API; Ctrl-C stops it
	@ninja -C $(BUILD) gateway
	@scripts/run.sh $(BUILD)

check: deps-check setup ## all tests
	@ninja -C $(BUILD)
	@scripts/check.sh $(BUILD)

bench: deps-bench setup ## comparisons with peers, as JSON lines and a table
	@ninja -C $(BUILD) benches
	@scripts/bench.sh $(BUILD)

build: deps-build setup ## build/weir, build/libweir.so and .a, build/ngx_http_weir_module.so
	@ninja -C $(BUILD) product

asan: deps-check ## unit, model, golden and store tests under ASan and UBSan
	@scripts/sanitize.sh address,undefined

tsan: deps-check ## store and engine tests under TSan
	@scripts/sanitize.sh thread

valgrind: deps-check ## unit tests and the command line under valgrind
	@scripts/valgrind.sh

fuzz: deps-check ## every fuzz target for FUZZ_SECONDS (default 20) each
	@scripts/fuzz.sh

lint: deps-check ## clang-format, clang-tidy, the layer check
	@scripts/lint.sh

cover: deps-check ## line coverage of the unit tests
	@scripts/cover.sh

install: build ## into DESTDIR, as root
	@meson install -C $(BUILD) --no-rebuild

clean: ## remove what was built
	rm -rf $(BUILD) build-*

setup: # after the dependencies, which Meson is one of
	@test -f $(BUILD)/build.ninja || meson setup $(BUILD) --buildtype=release

deps-build deps-run deps-check deps-bench:
	@scripts/setup.sh $(@:deps-%=%)

.NOTPARALLEL:
.PHONY: help run check bench build asan tsan valgrind fuzz lint cover install clean setup \
	deps-build deps-run deps-check deps-bench
