#!/usr/bin/env bash
# All tests: check.sh BUILD. The tests in C by meson, the programs end to end by pytest. Where a test's real
# peer is missing it is skipped with the reason; under CI=true a skip is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${1:-build}")
export WEIR_BUILD=$build

echo "== tests in C"
meson test -C "$build" --no-rebuild --print-errorlogs
if [ "${CI-}" = true ] && grep -q '"result": "SKIP"' "$build/meson-logs/testlog.json"; then
    echo "skipped under CI:" >&2
    grep '"result": "SKIP"' "$build/meson-logs/testlog.json" >&2
    exit 1
fi

echo "== layers, names and sizes"
python3 tests/layers.py

echo "== end to end"
scripts/clients.sh "$build"
# Without a registry of Python packages the tests that need one say so and are skipped.
scripts/venv.sh "$build" || [ "${CI-}" != true ]
# Debian's own Python: it is what setup.sh gives pytest to.
/usr/bin/python3 -m pytest -q -p no:cacheprovider tests/e2e
