#!/usr/bin/env bash
# Fills a server by vifl's copy and by mysqldump | mysql from the same source, in one run,
# and prints both times, their ratio, and processor seconds (servers and clients together).
#
#   scripts/bench-seed.sh [MEGABYTES]     default 1000
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
export VIFL_BENCH_MB=${1:-1000}
out=$(go test ./pkg/seed -run '^$' -bench '^BenchmarkFillAgainstDump$' -benchtime 1x -count 1 -timeout 60m) || {
	printf '%s\n' "$out" >&2
	exit 1
}
printf '%s\n' "$out" | awk -v mb="$VIFL_BENCH_MB" '
	/^cpu:/ { cpu = $0 }
	/^BenchmarkFill/ { for (i = 3; i < NF; i += 2) v[$(i + 1)] = $i }
	END {
		if (!("x-faster" in v)) { print "bench-seed: no result" > "/dev/stderr"; exit 1 }
		printf "fill a scratch server, %s MB of data and indexes (%s)\n", mb, cpu
		printf "%-20s %10s %10s\n", "", "seconds", "cpu s"
		printf "%-20s %10.1f %10.1f\n", "mysqldump | mysql", v["dump-s"], v["dump-cpu-s"]
		printf "%-20s %10.1f %10.1f   %.1f MB/s of row text, %.0f rows/s\n", "vifl copy", v["copy-s"], v["copy-cpu-s"], v["copy-MB/s"], v["copy-rows/s"]
		printf "ratio %.2f (floor 2.0, aim 2.5)\n", v["x-faster"]
	}'
