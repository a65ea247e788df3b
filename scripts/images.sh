#!/usr/bin/env bash
# Builds the images vifl, vifl-vitess and vifl-mysql and prints their sizes.
#
#   scripts/images.sh             the programs are compiled in the image
#   PROGRAMS=prebuilt MYSQL=mysql-prebuilt scripts/images.sh
#                                 they are those of bin/ and .tools/mysql (scripts/setup.sh)
#
# BASE_IMAGE, MYSQL_IMAGE and GO_IMAGE as in docker/Dockerfile; TAG (default dev); PREFIX before
# the names; VERSION.
set -euo pipefail
cd "$(dirname "$0")/.."
fail() { printf '%s\n' "$*" >&2; exit 1; }

docker info >/dev/null 2>&1 || fail "images: found no Docker engine that answers (docker info), expected one; start it, or set DOCKER_HOST"
export DOCKER_BUILDKIT=1
args=(--build-arg "COMMIT=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)" --build-arg "VERSION=${VERSION:-dev}")
for name in BASE_IMAGE MYSQL_IMAGE GO_IMAGE PROGRAMS MYSQL; do
	[ -z "${!name:-}" ] || args+=(--build-arg "$name=${!name}")
done
if [ "${PROGRAMS:-source}" = prebuilt ]; then
	for program in vifl vtgate vttablet vtctld vtctldclient vtorc mysqlctl mysqlctld; do
		[ -x "bin/$program" ] || fail "images: found no bin/$program, expected it for PROGRAMS=prebuilt; run scripts/setup.sh"
	done
	CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags "-s -w" -o bin/dock ./docker/dock
fi
if [ "${MYSQL:-mysql-image}" = mysql-prebuilt ] && [ -L .tools/mysql/bin/mysqld ]; then
	fail "images: found links to this machine's own MySQL in .tools/mysql, expected a MySQL of its own for MYSQL=mysql-prebuilt; name an image in MYSQL_IMAGE instead"
fi
for target in vifl-mysql vifl vifl-vitess; do
	docker build -q -f docker/Dockerfile --target "$target" -t "${PREFIX:-}$target:${TAG:-dev}" "${args[@]}" . >/dev/null ||
		fail "images: $target was not built, for the reasons above; nothing is tagged"
	docker image inspect --format "{{.Size}}" "${PREFIX:-}$target:${TAG:-dev}" |
		awk -v name="${PREFIX:-}$target:${TAG:-dev}" '{ printf "image %s: %.0f MB\n", name, $1 / 1e6 }'
done
