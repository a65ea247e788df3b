#!/usr/bin/env bash
# The compose tests: the images, a fleet in containers, a shard moved in it.
#
# An engine that answers is used, and only objects of an own, random name are made in it. Where
# there is none and the machine can have one (root, Debian 12), one of our own is started and
# ended. Otherwise the tests are skipped, said on the last lines; with CI=true a machine that
# could have had an engine fails instead.
set -uo pipefail
ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P) || exit 1
# shellcheck source=scripts/setup.sh
. "$ROOT/scripts/setup.sh"
# shellcheck source=scripts/engine.sh
. "$ROOT/scripts/engine.sh"
cd -- "$ROOT" || exit 1

MEMORY_MIB=4000
BASE_DIR=
IMAGES=()

# skip REASON
skip() {
	{
		printf '%s\n' "" "################################################################"
		printf '## The compose tests were NOT run: %s\n' "$*"
		printf '%s\n' "################################################################"
	} >&2
	exit 0
}

clean() {
	local status=$?
	trap - EXIT INT TERM
	[ -z "$BASE_DIR" ] || rm -rf -- "$BASE_DIR"
	if [ "${#IMAGES[@]}" -gt 0 ]; then
		docker image rm -f "${IMAGES[@]}" >/dev/null 2>&1
	fi
	[ "$status" = 0 ] || [ -z "$ENGINE_DIR" ] || tail -n 5 -- "$ENGINE_DIR/log" >&2
	stop_engine
	rm -rf -- "$TMP"
	exit "$status"
}

find_compose() {
	if docker compose version >/dev/null 2>&1; then
		COMPOSE="docker compose"
	elif docker-compose version >/dev/null 2>&1; then
		COMPOSE=docker-compose
	else
		return 1
	fi
}

run_tests() {
	local free problem
	umask 022
	TMP=$(mktemp -d -- "$ROOT/.tools/compose.XXXXXX") || fail "compose-test: cannot make a folder in $ROOT/.tools; run scripts/setup.sh"
	trap clean EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	free=$(awk '$1 == "MemAvailable:" { print int($2 / 1024) }' /proc/meminfo)
	[ "${free:-0}" -ge "$MEMORY_MIB" ] || skip "found $free MiB of memory free, expected $MEMORY_MIB MiB; end something and run make compose-test"
	local own=0
	if ! docker info >/dev/null 2>&1; then
		problem=$(engine_problem)
		[ -z "$problem" ] || skip "found no Docker engine that answers, and none can be started here: $problem; start one and run make compose-test"
		fetch_engine_or_skip
		engine_path
		start_engine || no_engine "the engine did not start"
		own=1
	fi
	find_compose || no_engine "found neither docker compose nor docker-compose"
	TAG=$(od -An -N4 -tx4 /dev/urandom | tr -d ' ')
	export TAG PREFIX=vifl-test/
	base "$own"
	IMAGES+=("${PREFIX}vifl:$TAG" "${PREFIX}vifl-vitess:$TAG" "${PREFIX}vifl-mysql:$TAG")
	local mysql=mysql-prebuilt image=${MYSQL_IMAGE:-$(awk -F= '$1 == "MYSQL_IMAGE" { print $2 }' docker/.env)}
	if [ -L .tools/mysql/bin/mysqld ]; then
		# Links to the machine's own MySQL, whose libraries are all over its system.
		have "$image" || skip "found links to this machine's own MySQL in .tools/mysql, and no image $image, expected either a MySQL of scripts/setup.sh's own or that image"
		mysql=mysql-image
	fi
	PROGRAMS=prebuilt MYSQL=$mysql MYSQL_IMAGE=$image BASE_IMAGE=$BASE scripts/images.sh || fail "compose-test: no images"
	VIFL_COMPOSE=$COMPOSE VIFL_IMAGE=${PREFIX}vifl:$TAG VIFL_VITESS_IMAGE=${PREFIX}vifl-vitess:$TAG \
		VIFL_MYSQL_IMAGE=${PREFIX}vifl-mysql:$TAG ETCD_IMAGE=$ETCD scripts/test.sh -v ./e2e/compose
}

# A subshell, so that what fails there can be a skip on a machine that is nobody's CI.
fetch_engine_or_skip() {
	(fetch_engine) || no_engine "its packages cannot be had"
}

# no_engine REASON: on a machine that could have one.
no_engine() {
	[ "${CI:-}" != true ] || fail "compose-test: $*, expected an engine on this machine in CI"
	skip "$*"
}

# base OWN: sets BASE, the base image, and ETCD, the topo server's: pulled where a registry
# answers, else built from Debian's packages.
base() {
	BASE=${BASE_IMAGE:-} ETCD=${ETCD_IMAGE:-}
	if [ "$1" = 0 ]; then
		[ -n "$BASE" ] || BASE=$(awk -F= '$1 == "BASE_IMAGE" { print $2 }' docker/.env)
		[ -n "$ETCD" ] || ETCD=$(awk -F= '$1 == "ETCD_IMAGE" { print $2 }' docker/.env)
		have "$BASE" && have "$ETCD" && return
		[ -z "$(engine_problem)" ] || skip "the engine has no image $BASE or $ETCD and can pull none, and they cannot be built here: $(engine_problem)"
		fetch_engine_or_skip
		local path=$PATH
		engine_path
		PATH=$path:$PATH
	fi
	BASE=vifl-test/base:$TAG
	IMAGES+=("$BASE")
	build_base "$BASE"
	ETCD=vifl-test/etcd:$TAG
	IMAGES+=("$ETCD")
	mkdir -p -- "$TMP/etcd"
	cp -- "$(command -v etcd)" "$(command -v etcdctl)" "$TMP/etcd/" &&
		printf '%s\n' 'ARG BASE_IMAGE' 'FROM ${BASE_IMAGE}' 'COPY etcd etcdctl /usr/local/bin/' >"$TMP/etcd/Dockerfile" &&
		DOCKER_BUILDKIT=1 docker build -q --build-arg "BASE_IMAGE=$BASE" -t "$ETCD" "$TMP/etcd" >/dev/null ||
		fail "compose-test: the image of etcd was not built"
}

have() { docker image inspect "$1" >/dev/null 2>&1 || timeout 120 docker pull -q "$1" >/dev/null 2>&1; }

# On one line: bash reads a script as it goes, and this one may be edited meanwhile.
run_tests; exit
