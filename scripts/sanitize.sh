#!/usr/bin/env bash
# The tests in C under a sanitizer: sanitize.sh address,undefined | thread. A folder of its own, build-NAME.
set -euo pipefail
cd "$(dirname "$0")/.."
kind=${1:?usage: sanitize.sh address,undefined|thread}
build=build-${kind%%,*}
[ -f "$build/build.ninja" ] ||
    meson setup "$build" --buildtype=debugoptimized -Db_sanitize="$kind" -Db_lundef=false -Dnginx=disabled >/dev/null
ninja -C "$build" >/dev/null
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1
# The arena of a killed process is what the crash tests are about: they run under both.
meson test -C "$build" --no-rebuild --print-errorlogs --timeout-multiplier 6
# So is the daemon, by what drives it from outside.
ASAN_OPTIONS=detect_leaks=1:exitcode=67:quarantine_size_mb=1 TSAN_OPTIONS=halt_on_error=1:exitcode=66 WEIR_BUILD=$build \
    /usr/bin/python3 -m pytest -q -p no:cacheprovider tests/e2e/test_serve_core.py tests/e2e/test_serve_tls.py tests/e2e/test_grpc_bad.py \
    tests/e2e/test_resp.py tests/e2e/test_resp_load.py tests/e2e/test_http_wire.py tests/e2e/test_alerts_people.py
