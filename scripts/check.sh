#!/usr/bin/env bash
# All tests: check.sh BUILD. The tests in C by meson, the programs end to end by pytest. Where a test's real
# peer is missing it is skipped with the reason; under CI=true a skip is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${1:-build}")

echo "== tests in C"
meson test -C "$build" --no-rebuild --print-errorlogs

echo "== layers, names and sizes"
python3 tests/layers.py

echo "== end to end"
export WEIR_BUILD=$build
strict=()
[ "${CI-}" != true ] || strict=(-p no:cacheprovider --strict-markers)
# Debian's own Python: it is what setup.sh gives pytest to.
/usr/bin/python3 -m pytest -q "${strict[@]}" tests/e2e
