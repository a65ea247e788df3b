#!/usr/bin/env bash
# Runs go tests with what scripts/setup.sh installed. Packages run one after the other unless the
# caller says -p: each starts real servers, and two cores do not hold two fleets.
set -euo pipefail
cd "$(dirname "$0")/.."
exec go test -count=1 -p 1 -timeout 30m "$@"
