# vifl: make demo and make test do all the set-up they need.

.PHONY: demo test test-long lint bench setup unit e2e images compose-test clean

demo: setup
	@scripts/demo.sh

# The compose tests come last: where no engine can be had, what they say is on the last lines.
test: setup lint unit e2e compose-test

setup:
	@scripts/setup.sh

lint:
	@scripts/lint.sh

unit: setup
	@scripts/setup_test.sh
	@scripts/test.sh -p 2 ./cmd/... ./docker/... ./pkg/... ./workflows/... ./vindexes/...

e2e: setup
	@scripts/test.sh ./e2e/...

test-long: setup lint
	@VIFL_TEST_LONG=1 scripts/test.sh ./...
	@VIFL_TEST_LONG=1 scripts/compose-test.sh

# The images for use; the tests build theirs from bin/ and .tools/mysql.
images:
	@scripts/images.sh

compose-test: setup
	@scripts/compose-test.sh

bench: setup
	@scripts/bench.sh

clean:
	rm -rf bin .tools .dev .tmp
