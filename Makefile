# vifl: make demo and make test do all the set-up they need.

.PHONY: demo test test-long lint bench setup unit e2e clean

demo: setup
	@scripts/demo.sh

test: setup lint unit e2e

setup:
	@scripts/setup.sh

lint:
	@scripts/lint.sh

unit: setup
	@scripts/setup_test.sh
	@scripts/test.sh ./cmd/... ./pkg/... ./workflows/... ./vindexes/...

e2e: setup
	@scripts/test.sh ./e2e/...

test-long: setup lint
	@VIFL_TEST_LONG=1 scripts/test.sh ./...

bench: setup
	@scripts/bench.sh

clean:
	rm -rf bin .tools .dev .tmp
