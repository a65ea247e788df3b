#!/usr/bin/env bash
set -euo pipefail
cd "$(dirname "$0")/.."
printf 'machine: %s, %s cores, %s; %s; vitess %s; mysqld %s\n' \
	"$(uname -m)" "$(nproc)" "$(awk '/MemTotal/ {printf "%.0f GB", $2 / 1e6}' /proc/meminfo)" "$(go version | cut -d' ' -f3)" \
	"$(go list -m -f '{{.Version}}' vitess.io/vitess)" "$(.tools/mysql/bin/mysqld --version | sed 's/.*Ver //')"
# The vindexes beside Vitess' xxhash: nanoseconds for one id, ratios, allocations, 8 goroutines.
go test -run '^$' -bench '^BenchmarkMap$' -benchtime 1x ./vindexes
go test -run '^$' -bench '^BenchmarkLookupTenMillion$' ./pkg/teammap
# The audit of a general log on one core, every shape of query met before: the goal is 50,000 lines/s.
go test -run '^$' -bench '^BenchmarkGeneralLog$' -cpu 1 ./pkg/audit
go test -run '^$' -bench . -benchtime 1x -timeout 60m ./pkg/seed ./pkg/diff ./pkg/legacy
# The streams beside VReplication and a native replica, on VIFL_BENCH_TRANSACTIONS transactions of
# one row, and a hundredth as many of 1,000 rows.
VIFL_BENCH_TRANSACTIONS=${VIFL_BENCH_TRANSACTIONS:-200000} \
	go test -run '^$' -bench '^BenchmarkApply$' -benchtime 1x -timeout 60m ./pkg/stream
# The whole seed beside VReplication, on VIFL_BENCH_MB megabytes (1000). It needs some ten times
# that on the disk of the folder for temporary files.
go test -run '^$' -bench '^BenchmarkWholeSeed$' -benchtime 1x -timeout 150m ./e2e
