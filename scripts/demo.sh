#!/usr/bin/env bash
# The demo: a local fleet, the old application writing to it, and one legacy shard moved
# into Vitess under that load. KEEP=1 leaves the fleet up at the end.
set -euo pipefail
cd "$(dirname "$0")/.."

shard=${SHARD:-0123}
writers=${WRITERS:-12}
rate=${RATE:-150}
mkdir -p .tmp
dir=$(mktemp -d "$PWD/.tmp/demo.XXXXXX")
vifl=$PWD/bin/vifl
export VIFL_CONFIG=$dir/vifl.yaml
load_pid=
serve_pid=

say() { printf '\n== %s\n' "$*"; }

# swap_hosts prints vifl.yaml with the "sides:" lines of its two shards exchanged.
swap_hosts() {
	awk '/sides:/ { line[++n] = NR; text[n] = $0 } { all[NR] = $0 }
		END { all[line[1]] = text[2]; all[line[2]] = text[1]; for (i = 1; i <= NR; i++) print all[i] }' "$VIFL_CONFIG"
}

# connect_help says how to look around with a client that works: MySQL 9's own cannot log in
# to vtgate, which speaks mysql_native_password.
connect_help() {
	cat <<EOF
a legacy side, as root over its socket or as vifl:
  .tools/mysql/bin/mysql -h 127.0.0.1 -P PORT -u vifl -p"\$(cat $dir/secrets/legacy)"
vtgate, by any client that still speaks mysql_native_password (MariaDB's does: apt-get install mariadb-client):
  mariadb -h 127.0.0.1 -P PORT -u app -p"\$(cat $dir/secrets/app)" legacy_$shard
the ports are in the table above; vifl itself: export VIFL_CONFIG=$VIFL_CONFIG
EOF
}

finish() {
	status=$?
	trap - EXIT INT TERM
	if [ -n "$load_pid" ]; then
		kill "$load_pid" 2>/dev/null || true
		wait "$load_pid" 2>/dev/null || true
	fi
	if [ -n "$serve_pid" ]; then
		kill "$serve_pid" 2>/dev/null || true
		wait "$serve_pid" 2>/dev/null || true
	fi
	if [ "${KEEP:-0}" = 1 ] && [ "$status" = 0 ]; then
		say "The fleet stays up (KEEP=1)"
		"$vifl" dev status --dir "$dir"
		connect_help
		echo "take it down with: bin/vifl dev down --dir $dir"
		exit 0
	fi
	"$vifl" dev down --dir "$dir" || status=1
	if [ "$status" = 0 ]; then
		# The ledger alone outlives the fleet, so that its claim can be read: the last run's.
		rm -rf "$PWD/.tmp/demo.ledger"
		mv "$dir/ledger" "$PWD/.tmp/demo.ledger"
		rm -rf "$dir"
		echo "the ledger of acknowledged writes: $PWD/.tmp/demo.ledger"
	else
		echo "demo: failed (exit $status); logs and ledger are in $dir" >&2
	fi
	exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

say "The local fleet: mains, legacy shards 0123 and 4567 (pairs a/b), etcd, vtctld, vtgate, vtorc"
"$vifl" dev up --dir "$dir"

say "The old application starts: $writers writers on legacy shard $shard"
"$vifl" dev load --shards "$shard" --writers "$writers" --rate "$rate" --ledger "$dir/ledger" >"$dir/load.out" 2>"$dir/load.log" &
load_pid=$!
sleep 2
kill -0 "$load_pid" 2>/dev/null || { cat "$dir/load.log" "$dir/load.out" >&2; exit 1; }
"$vifl" shards list

say "Preflight: may this shard be moved?"
"$vifl" preflight "$shard"

say "Seed: one consistent snapshot of the legacy becomes the landing's backup"
"$vifl" seed "$shard" --method copy

say "Sync: the landing follows the legacy's binlog (vifl serve does, between the commands)"
"$vifl" serve "$shard" 2>"$dir/serve.log" &
serve_pid=$!
"$vifl" sync start "$shard"
"$vifl" sync status "$shard"

say "Diff: both sides, side b and every tablet at one instant"
"$vifl" diff "$shard"

say "Rehearsal: freeze, catch up, verify, thaw"
"$vifl" rehearse "$shard"

say "The wrong shard: the hosts of 0123 and 4567 swapped in vifl.yaml"
swap_hosts >"$dir/swapped.yaml"
code=0
"$vifl" --config "$dir/swapped.yaml" cutover "$shard" --confirm "$shard" || code=$?
if [ "$code" != 3 ]; then
	echo "demo: a cutover with swapped hosts ended with exit code $code, expected 3 (refused)" >&2
	exit 1
fi

say "Cutover: behind it the legacy follows the landing"
"$vifl" cutover "$shard" --confirm "$shard"
sleep 3
"$vifl" status "$shard"

say "Rollback: back on the legacy, with everything that was written on Vitess"
"$vifl" rollback "$shard" --confirm "$shard"
sleep 2

say "A second cutover, behind a new diff"
"$vifl" diff "$shard"
"$vifl" cutover "$shard" --confirm "$shard"
sleep 2

say "Reverse diff: the legacy against the landing, while the application writes"
"$vifl" diff "$shard" --reverse

say "The old application stops; what it saw"
kill -TERM "$load_pid"
wait "$load_pid" || true
load_pid=
cat "$dir/load.out"

say "The proof: every acknowledged write, once, on the landing and, by the stream back, on the legacy"
"$vifl" dev load verify --ledger "$dir/ledger" --legacy-follows

say "Complete: the one-way door"
"$vifl" complete "$shard" --confirm "$shard"

say "History of $shard"
"$vifl" history "$shard"
