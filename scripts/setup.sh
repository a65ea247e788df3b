#!/usr/bin/env bash
# Makes what a fresh clone needs to run servers: a MySQL in .tools/mysql and
# the programs in bin/. Nothing is written outside of this folder but Go's own
# caches, and nothing is installed in the system. Running it again does only
# what is missing or out of date.
#
#   scripts/setup.sh            everything
#   scripts/setup.sh mysql      only .tools/mysql
#   scripts/setup.sh vitess     only bin/
set -uo pipefail

ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P) || exit 1
# shellcheck source=scripts/setup-mysql.sh
. "$ROOT/scripts/setup-mysql.sh"
# shellcheck source=scripts/setup-vitess.sh
. "$ROOT/scripts/setup-vitess.sh"

say() { printf '%s\n' "$*"; }
warn() { printf '%s\n' "$*" >&2; }
fail() {
	warn "$@"
	exit 1
}

# need_tool NAME WHAT_TO_DO
need_tool() {
	command -v "$1" >/dev/null || fail "setup: found no $1 on PATH, expected one; $2"
}

# need_space FOLDER MIB PURPOSE
need_space() {
	local free
	free=$(df -Pk -- "$1" | awk 'NR == 2 { print int($4 / 1024) }')
	[ "${free:-0}" -ge "$2" ] ||
		fail "setup: found ${free:-0} MiB free in $1, expected $2 MiB for $3; make room and run scripts/setup.sh again"
}

# last_error FILE: the line of a program's output that tells best what went
# wrong, to be part of a line of our own.
last_error() {
	local line
	line=$(grep '^E: ' -- "$1" | head -n 1)
	[ -n "$line" ] || line=$(grep -v '^[[:space:]]*$' -- "$1" | tail -n 1)
	printf '%s' "${line:-no message}"
}

# Two setups at once would build into the same places: the second waits, and
# then usually finds that there is nothing left to do.
take_lock() {
	{ mkdir -p -- "$ROOT/.tools" 2>/dev/null && [ -w "$ROOT/.tools" ]; } ||
		fail "setup: found $ROOT not writable for $(id -un), expected to make .tools and bin there; use a folder of your own"
	exec 9>"$ROOT/.tools/lock" || fail "setup: cannot write $ROOT/.tools/lock; remove it if another user made it"
	flock -n 9 || {
		say "setup: waiting for another setup in this folder"
		flock 9
	}
}

# Everything half made is in $TMP, on the same file system as its later place.
make_tmp() {
	# With the lock held, what is here was left by a setup that was killed.
	rm -rf -- "$ROOT"/.tools/tmp.*
	TMP=$(mktemp -d -- "$ROOT/.tools/tmp.XXXXXX") || fail "setup: cannot make a folder in $ROOT/.tools"
	chmod 755 -- "$TMP"
	trap 'rm -rf -- "$TMP"' EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
}

main() {
	local what=${1:-all}
	case $what in
	all | mysql | vitess) ;;
	*) fail "usage: scripts/setup.sh [mysql|vitess]" ;;
	esac
	# Servers run as another user when we are root, and must be able to read this.
	umask 022
	# An ordinary user's PATH often lacks the folders servers are in.
	PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
	need_tool flock "install util-linux"
	take_lock
	make_tmp
	DONE=0
	[ "$what" = vitess ] || setup_mysql
	[ "$what" = mysql ] || setup_vitess
	if [ "$DONE" = 0 ]; then
		say "setup: everything is in place, nothing to do"
	else
		say "setup: done"
	fi
}

# The tests read this file for its functions alone.
[ "${BASH_SOURCE[0]}" != "$0" ] || { main "$@"; exit; }
