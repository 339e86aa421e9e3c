#!/bin/sh
# Install the Debian packages that a purpose needs: setup.sh build|run|check|bench. Does nothing, and asks
# for nothing, where they are there. What each package is for: docs/dependencies.md.
set -eu
build="gcc libc6-dev meson ninja-build pkg-config libyaml-dev libjansson-dev zlib1g-dev uthash-dev libuv1-dev libssl-dev nginx-dev \
libnghttp2-dev libhiredis-dev libsqlite3-dev libcurl4-openssl-dev libexpat1-dev"
run="$build nginx python3 curl tzdata"
check="$run redis-tools redis-server memcached iproute2 util-linux libcmocka-dev protobuf-c-compiler libprotobuf-c-dev python3 python3-pytest python3-venv clang-14 libclang-rt-14-dev clang-format-14 clang-tidy-14 valgrind \
mandoc nghttp2-client haproxy caddy openssl systemd git prometheus"
# Clients of the RESP door in other languages; whoever has these from elsewhere keeps them.
command -v npm >/dev/null || check="$check nodejs npm"
command -v go >/dev/null || check="$check golang-go"
bench="$run redis-tools redis-server memcached wrk nghttp2-client goaccess python3"
case "${1-}" in
    build) want=$build ;;
    run) want=$run ;;
    check) want=$check ;;
    bench) want=$bench ;;
    *) echo "usage: setup.sh build|run|check|bench" >&2; exit 2 ;;
esac
missing=
for package in $want; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
sudo=
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "setup.sh: as root, please: apt-get install$missing" >&2; exit 1; }
    sudo=sudo
fi
echo "installing:$missing" >&2
export DEBIAN_FRONTEND=noninteractive
# Nothing of what is installed here is wanted as a running service: nginx is started by our own scripts.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | $sudo tee "$policy" >/dev/null
    $sudo chmod +x "$policy"
    trap '$sudo rm -f "$policy"' EXIT
fi
$sudo apt-get update -qq
# shellcheck disable=SC2086 # a list of words
$sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
