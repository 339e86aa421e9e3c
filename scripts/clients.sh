#!/usr/bin/env bash
# Fetch the Redis clients in JavaScript and Go that tests/e2e/test_resp_clients.py speaks with (Python's is in
# tests/requirements.txt), and h2spec for tests/e2e/test_grpc_h2spec.py: clients.sh BUILD. They are pinned, go under
# BUILD/clients, and are not fetched twice. What cannot be had is said and left out; its tests are then skipped.
set -uo pipefail
cd "$(dirname "$0")/.."
home=$(mkdir -p "${1:-build}/clients" && realpath "${1:-build}/clients")

have() { [ -e "$home/$1" ] && cmp -s "$2" "$home/$1"; }
missing() { echo "clients.sh: no $1: its tests will be skipped" >&2; }

pins=tests/e2e/clients/package.json
if ! have node.pins "$pins"; then
    mkdir -p "$home/node" && cp "$pins" tests/e2e/clients/client.js "$home/node"
    if command -v npm >/dev/null && npm install --silent --no-audit --no-fund --prefix "$home/node" >"$home/node.log" 2>&1; then
        cp "$pins" "$home/node.pins"
    else
        missing "ioredis and node-redis"
    fi
fi
cp tests/e2e/clients/client.js "$home/node/" 2>/dev/null

if ! have go.pins tests/e2e/clients/client.go; then
    if command -v go >/dev/null && (cd tests/e2e/clients && go build -o "$home/go-client" client.go) >"$home/go.log" 2>&1; then
        cp tests/e2e/clients/client.go "$home/go.pins"
    else
        missing go-redis
    fi
fi

if ! have h2spec.pins tests/e2e/h2spec/go.sum; then
    if command -v go >/dev/null && (cd tests/e2e/h2spec && go build -o "$home/h2spec" github.com/summerwind/h2spec/cmd/h2spec) \
        >"$home/h2spec.log" 2>&1; then
        cp tests/e2e/h2spec/go.sum "$home/h2spec.pins"
    else
        missing h2spec
    fi
fi
exit 0
