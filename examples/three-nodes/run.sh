#!/bin/sh
# Three daemons and one Redis on this machine, until ^C: run.sh [WEIR]. Without WEIR it is the one in PATH, or build/weir of
# this repository. Ports: FIRST (8081) and the two behind it for HTTP, 100 higher for RESP, 200 higher for the admin door;
# REDIS (6399) for the store.
#
#     for i in 1 2 3 4; do for port in 8081 8082 8083; do
#         curl -s -d '{"ip": "192.0.2.1", "headers": {"X-Api-Key": "me"}}' http://127.0.0.1:$port/v1/check; echo
#     done; done                               # remaining goes down, whichever is asked
#     kill -STOP $(cat /tmp/weir-three-nodes/redis.pid)   # and what when the store does not answer?
set -eu
here=$(cd "$(dirname "$0")" && pwd)
first=${FIRST:-8081}
redis=${REDIS:-6399}
dir=${DIR:-/tmp/weir-three-nodes}

fail() {
    echo "run.sh: $*" >&2
    exit 1
}

find_weir() {
    command -v weir || ls "$here/../../build/weir" 2>/dev/null ||
        fail "no weir in PATH and no build/weir: make build, or run.sh WEIR"
}

weir=${1:-$(find_weir)}
for program in "$weir" redis-server curl; do
    command -v "$program" >/dev/null || fail "no $program"
done
mkdir -p "$dir"

pids=
stop() {
    trap - EXIT INT TERM
    for pid in $pids; do kill -CONT "$pid" 2>/dev/null && kill "$pid" 2>/dev/null; done
    wait
}
trap stop EXIT
trap 'exit 0' INT TERM

# wait_for WHAT PID LOG COMMAND...: until it succeeds. One that has ended, or says nothing for 10 s, ends us all.
wait_for() {
    what=$1 pid=$2 log=$3 tries=100
    shift 3
    until "$@" >/dev/null 2>&1 && kill -0 "$pid" 2>/dev/null; do
        tries=$((tries - 1))
        if [ "$tries" = 0 ] || ! kill -0 "$pid" 2>/dev/null; then
            fail "$what does not answer; the last line of $log: $(tail -n 1 "$log")"
        fi
        sleep 0.1
    done
}

# The log is asked, not the port: another server that has the port would answer as well.
redis-server --port "$redis" --bind 127.0.0.1 --save '' --appendonly no --dir "$dir" --maxmemory 64mb \
    --maxmemory-policy noeviction >"$dir/redis.log" &
echo $! >"$dir/redis.pid"
pids=$!
wait_for "Redis on port $redis" "$pids" "$dir/redis.log" grep -q 'Ready to accept connections' "$dir/redis.log"
for node in 0 1 2; do
    sed -e "s/127\.0\.0\.1:8081/127.0.0.1:$((first + node))/" -e "s/127\.0\.0\.1:8181/127.0.0.1:$((first + node + 100))/" \
        -e "s/127\.0\.0\.1:8281/127.0.0.1:$((first + node + 200))/" -e "s/127\.0\.0\.1:6399/127.0.0.1:$redis/" \
        "$here/policy.yaml" >"$dir/node$node.yaml"
    "$weir" serve -c "$dir/node$node.yaml" 2>"$dir/node$node.log" &
    pids="$! $pids" # the daemons end before their store, and give back what they hold
done
set -- $pids
for node in 2 1 0; do
    wait_for "node $node" "$1" "$dir/node$node.log" curl -sf --noproxy '*' "http://127.0.0.1:$((first + node + 200))/readyz"
    shift
done
echo "three nodes: http://127.0.0.1:$first, :$((first + 1)), :$((first + 2)); logs in $dir"
wait
