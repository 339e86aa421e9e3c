#!/usr/bin/env bash
# The gateway in front of the demo API: run.sh BUILD. Listens on $PORT (8080). Ctrl-C stops all that it started.
# Everything it writes is in one temporary folder, which goes when it ends.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${1:-build}")
port=${PORT:-8080}
module=$build/ngx_http_weir_module.so
demo=$PWD/examples/demo

die() {
    echo "run.sh: $1" >&2
    exit 1
}

port_is_sound() {
    [[ $port =~ ^[0-9]{1,5}$ ]] && [ "$((10#$port))" -ge 1 ] && [ "$((10#$port))" -le 65535 ]
}
port_is_sound || die "PORT is \"$port\": expected a number from 1 to 65535, as in PORT=8081 make run"
port=$((10#$port))
[ -f "$module" ] || die "no $module: is nginx-dev installed? (scripts/setup.sh build, then make build)"
PATH=$PATH:/usr/sbin
command -v nginx >/dev/null || die "nginx is not installed (scripts/setup.sh run)"
if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
    die "port $port is in use; choose another: PORT=8081 make run"
fi

memory=/dev/shm # the arena belongs into memory
[ -w "$memory" ] || memory=${TMPDIR:-/tmp}
dir=$(mktemp -d "$memory/weir-run.XXXXXX")
chmod 711 "$dir" # nginx's workers are not root
nginx= api= log=

stop() {
    trap '' INT TERM HUP
    for pid in $nginx $api $log; do
        kill -TERM "$pid" 2>/dev/null || true
    done
    wait
    rm -rf "$dir"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP # the terminal is gone

python3 "$demo/api.py" "$dir/api.port" &
api=$!
for _ in $(seq 100); do
    [ -s "$dir/api.port" ] && break
    kill -0 "$api" 2>/dev/null || die "the demo API did not start"
    sleep 0.05
done
[ -s "$dir/api.port" ] || die "the demo API did not come up"

cp "$demo/policy.yaml" "$dir/policy.yaml"
printf '\narena: {path: %s/arena, size: 8MiB}\n' "$dir" >>"$dir/policy.yaml"

cat >"$dir/nginx.conf" <<EOF
load_module $module;
worker_processes 2;
daemon off;
pid $dir/nginx.pid;
error_log $dir/error.log notice;
events { worker_connections 1024; }
http {
    log_format weir '\$time_iso8601 \$status \$request_method \$request_uri '
                    '\$weir_verdict limit=\$weir_limit remaining=\$weir_remaining delay=\$weir_delay '
                    'at=\$msec took=\$request_time';
    access_log $dir/access.log weir;
    client_body_temp_path $dir/t1;
    proxy_temp_path $dir/t2;
    fastcgi_temp_path $dir/t3;
    uwsgi_temp_path $dir/t4;
    scgi_temp_path $dir/t5;

    weir_policy $dir/policy.yaml;

    server {
        listen 127.0.0.1:$port;
        weir on;
        location / {
            proxy_pass http://127.0.0.1:$(cat "$dir/api.port");
        }
        location = /ready {
            weir off;
            access_log off;
            return 204;
        }
    }
}
EOF

nginx -p "$dir" -c "$dir/nginx.conf" -e "$dir/error.log" &
nginx=$!
for _ in $(seq 200); do
    curl -fs -o /dev/null "http://127.0.0.1:$port/ready" && break
    kill -0 "$nginx" 2>/dev/null || break
    sleep 0.05
done
if ! curl -fs -o /dev/null "http://127.0.0.1:$port/ready"; then
    cat "$dir/error.log" >&2
    die "nginx did not come up on port $port"
fi

url=http://localhost:$port
cat <<EOF

weir is limiting $url (policy: examples/demo/policy.yaml). In another terminal:

1) two layers and their headers: the limit nearest its end is named
   curl -i $url/hello
   => 200, X-RateLimit-Limit: 60, X-RateLimit-Remaining: 59

2) an exact limit of 5 in 10 s: the sixth is refused
   for i in 1 2 3 4 5 6; do curl -s -o /dev/null -w '%{http_code} ' $url/search/shoes; done
   => 200 200 200 200 200 429

3) a plan by API key, and a route that costs 10 of its 1000
   curl -i -X POST -H 'X-Api-Key: demo-pro' $url/reports
   => 201, X-RateLimit-Limit: 1000, X-RateLimit-Remaining: 990

4) a queue: five at once are not refused but leave 0.2 s apart
   seq 5 | xargs -P5 -I{} curl -s -o /dev/null -w '%{http_code} after %{time_total} s\n' $url/export/{}
   => 200 after 0.0, 0.2, 0.4, 0.6 and 0.8 s

5) two uploads at a time: of three at once, one is refused
   seq 3 | xargs -P3 -I{} curl -s -o /dev/null -w '%{http_code} ' -d x $url/upload
   => 429 201 201

What each request met is below; the shadow limit "hello-trial" would refuse a third /hello within a minute: "shadow".
Ctrl-C stops it.

EOF
tail -q -n +1 -f "$dir/access.log" --pid="$nginx" &
log=$!
code=0
wait -n -p ended "$nginx" "$api" || code=$?
# Where SIGINT was ignored when this began (nohup, cmd &) no shell can trap it: nginx gets it all the same, and
# ends as it was told. That is no failure.
[ "$ended" = "$nginx" ] && [ "$code" = 0 ] && exit 0
cat "$dir/error.log" >&2
die "nginx or the demo API has ended"
