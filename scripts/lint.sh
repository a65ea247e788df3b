#!/usr/bin/env bash
# gofmt, vet, staticcheck (pinned in go.mod) and the layer rule over the whole tree.
set -euo pipefail
cd "$(dirname "$0")/.."
unformatted=$(gofmt -l cmd docker pkg vindexes workflows e2e)
if [ -n "$unformatted" ]; then
	printf 'lint: gofmt would change:\n%s\n' "$unformatted" >&2
	exit 1
fi
go vet ./...
go tool staticcheck ./...
scripts/layers.sh
echo "lint: clean"
