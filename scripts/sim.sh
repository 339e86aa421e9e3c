#!/bin/sh
# The simulation of a fleet, longer than CI runs it: SEEDS (10) runs of DECISIONS (1000000) each, from
# seed FIRST (1000). WEIR_SEED=n replays one, with the same DECISIONS.
set -eu
cd "$(dirname "$0")/.."
ninja -C build tests/sim/sim
failed=0
seed=${WEIR_SEED:-${FIRST:-1000}}
last=$((seed + ${SEEDS:-10} - 1))
[ -n "${WEIR_SEED:-}" ] && last=$seed
while [ "$seed" -le "$last" ]; do
	WEIR_SEED=$seed build/tests/sim/sim --decisions "${DECISIONS:-1000000}" --verbose "$@" || failed=1
	seed=$((seed + 1))
done
exit $failed
