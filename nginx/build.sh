#!/bin/bash
# Build ngx_http_weir_module.so for Debian's nginx, out of the headers and the configure of nginx-dev; nothing
# is written there.
#   build.sh configure OBJS LIBWEIR.A INCLUDE    -> OBJS/Makefile (only when nginx or the list of files changes)
#   build.sh make OBJS OUT LINK                  -> OUT, and the same file under the name LINK
set -euo pipefail
nginx_src=${NGINX_SRC:-/usr/share/nginx/src}
here=$(cd "$(dirname "$0")" && pwd)
step=$1
objs=$2
if [ "$step" = configure ]; then
    WEIR_LIBRARY=$(realpath "$3")
    WEIR_INCLUDE=$(realpath "$4")
    export WEIR_LIBRARY WEIR_INCLUDE
    mkdir -p "$objs"
    objs=$(realpath "$objs")
    cd "$nginx_src"
    # shellcheck disable=SC1091 # from nginx-dev: sets NGX_CONF_FLAGS, those of Debian's binary
    . ./conf_flags
    # Only nginx's own table of modules is to be seen from outside: no symbol of libweir can meet another's.
    if ! ./configure --with-cc-opt="-g -O2 -fPIC -fvisibility=default -fstack-protector-strong -D_FORTIFY_SOURCE=2" \
        --with-ld-opt="-Wl,-z,relro -Wl,-z,now -Wl,--exclude-libs,ALL -fPIC" \
        "${NGX_CONF_FLAGS[@]}" --add-dynamic-module="$here" --builddir="$objs" >"$objs/configure.log" 2>&1; then
        cat "$objs/configure.log" >&2
        exit 1
    fi
    exit 0
fi
objs=$(realpath "$objs")
out=$3
link=$4
# The library is no dependency that nginx's Makefile knows of.
rm -f "$objs/ngx_http_weir_module.so"
make -s -f "$objs/Makefile" -C "$nginx_src" modules
cp "$objs/ngx_http_weir_module.so" "$out"
ln -f "$out" "$link"
