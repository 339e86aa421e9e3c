#!/bin/sh
# Three daemons and one Redis on this machine, until ^C: run.sh [WEIR]. Ports: FIRST (8081) and the two behind it for
# HTTP, 100 higher for RESP, 200 higher for the admin door; REDIS (6399) for the store.
#
#     for i in 1 2 3 4; do for port in 8081 8082 8083; do
#         curl -s -d '{"ip": "192.0.2.1", "headers": {"X-Api-Key": "me"}}' http://127.0.0.1:$port/v1/check; echo
#     done; done                               # remaining goes down, whichever is asked
#     kill -STOP $(cat /tmp/weir-three-nodes/redis.pid)   # and what when the store does not answer?
set -eu
here=$(cd "$(dirname "$0")" && pwd)
weir=${1:-weir}
first=${FIRST:-8081}
redis=${REDIS:-6399}
dir=${DIR:-/tmp/weir-three-nodes}
mkdir -p "$dir"

pids=
stop() {
    trap - EXIT INT TERM
    for pid in $pids; do kill -CONT "$pid" 2>/dev/null && kill "$pid" 2>/dev/null; done
    wait
}
trap stop EXIT
trap 'exit 0' INT TERM

redis-server --port "$redis" --bind 127.0.0.1 --save '' --appendonly no --dir "$dir" --maxmemory 64mb \
    --maxmemory-policy noeviction >"$dir/redis.log" &
echo $! >"$dir/redis.pid"
pids=$!
for node in 0 1 2; do
    sed -e "s/\${HTTP}/$((first + node))/" -e "s/\${RESP}/$((first + node + 100))/" \
        -e "s/\${ADMIN}/$((first + node + 200))/" -e "s/\${REDIS}/$redis/" "$here/policy.yaml" >"$dir/node$node.yaml"
    "$weir" serve -c "$dir/node$node.yaml" 2>"$dir/node$node.log" &
    pids="$! $pids" # the daemons end before their store, and give back what they hold
done
echo "three nodes: http://127.0.0.1:$first, :$((first + 1)), :$((first + 2)); logs in $dir"
wait
