#!/usr/bin/env bash
# Set up tierbench in .venv, and the pinned database servers in their private prefix.
#
#   scripts/setup.sh        what `make demo` needs
#   scripts/setup.sh dev    and what `make test` needs on top, all other engines too
#
# As root, missing Debian packages (compilers, tools; never a database server) are
# installed, and the system user tierbench is created, as which servers run; otherwise what is
# missing is named. Running it again changes nothing.
set -euo pipefail
umask 022 # what is installed is for the servers' user to read
cd "$(dirname "$0")/.."
what=${1:-user}

say() { printf 'setup: %s\n' "$*" >&2; }

# package:file — a package is there when its file or command is.
needed=(python3-venv:ensurepip gcc:gcc libc6-dev:/usr/include/stdio.h make:make)
useful=(
  fio:fio ioping:ioping numactl:numactl sysbench:sysbench
  # The certificate of a server that listens for clients on other hosts.
  openssl:openssl
  # Compressed files of users.
  zstd:zstd
  # The native programs, and the back ends of the client.
  libjansson-dev:/usr/include/jansson.h zlib1g-dev:/usr/include/zlib.h
  libpq-dev:/usr/include/postgresql/libpq-fe.h libmariadb-dev:/usr/include/mariadb/mysql.h
  freetds-dev:/usr/include/sybdb.h
)
for_tests=(
  chromium:chromium chromium-driver:chromedriver git:git shellcheck:shellcheck
  xfsprogs:/usr/sbin/mkfs.xfs # the playbooks' file systems are made in files
  # microbench's compiled loops are read, and compiled for arm64 too.
  binutils:objdump gcc-aarch64-linux-gnu:aarch64-linux-gnu-gcc
  libc6-dev-arm64-cross:/usr/aarch64-linux-gnu/include/stdio.h
  # The microbenchmarks of PMDK.
  libpmemlog1:/usr/lib/x86_64-linux-gnu/libpmemlog.so.1
  libpmemobj1:/usr/lib/x86_64-linux-gnu/libpmemobj.so.1
  # RocksDB and VoltDB come by Maven, and the official YCSB client is built with it.
  maven:mvn default-jdk-headless:javac
)

present() {
  case $1 in
    ensurepip) "$python" -c 'import ensurepip, venv' 2>/dev/null ;;
    /*) [ -e "$1" ] ;;
    *) command -v "$1" >/dev/null ;;
  esac
}

missing_of() {
  local entry
  for entry in "$@"; do
    present "${entry#*:}" || printf '%s\n' "${entry%%:*}"
  done
}

apt_install() {
  export DEBIAN_FRONTEND=noninteractive
  say "installing Debian packages: $*"
  apt-get install -y -qq --no-install-recommends "$@" >/dev/null ||
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@" >/dev/null; }
}

install_packages() { # required|optional package…
  local kind=$1
  shift
  [ $# -gt 0 ] || return 0
  if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    apt_install "$@" && return 0
  fi
  if [ "$kind" = required ]; then
    say "missing: $*. Install them (Debian: sudo apt install $*) and run this again."
    exit 1
  fi
  say "not installed (optional): $*. Debian: sudo apt install $*"
}

# Debian's comes first: every user can run it, and it is faster than one that pyenv compiles by default,
# in a home directory that the servers' user may not enter.
for python in /usr/bin/python3 python3; do
  "$python" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break
done
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  say "python3 is $(python3 --version 2>&1), 3.11 or later is needed"
  exit 1
}
[ "$what" != dev ] || needed+=(cmake:cmake) # pip would take what is installed half-way
mapfile -t missing < <(missing_of "${needed[@]}")
install_packages required "${missing[@]}"
mapfile -t missing < <(missing_of "${useful[@]}")
install_packages optional "${missing[@]}"

[ "$(id -u)" -ne 0 ] || scripts/create-user.sh

[ -x .venv/bin/python ] || "$python" -m venv .venv
extras=(hosts)
if [ "$what" = dev ]; then
  # Next to pip, which uses none of them.
  mapfile -t missing < <(missing_of "${for_tests[@]}")
  install_packages required "${missing[@]}" &
  by_apt=$!
  extras+=(dev)
fi
say "installing Python packages into .venv"
requirements='import sys, tomllib; project = tomllib.load(sys.stdin.buffer)["project"]
more = (name for extra in sys.argv[1:] for name in project["optional-dependencies"][extra])
print(*dict.fromkeys([*project["dependencies"], *more]), sep="\n")'
pip=(.venv/bin/python -m pip install -q --disable-pip-version-check --no-compile)
"${pip[@]}" --no-deps -e . & # compiles, next to what is downloaded
compiling=$!
.venv/bin/python -c "$requirements" "${extras[@]}" <pyproject.toml | "${pip[@]}" -r /dev/stdin
wait "$compiling"
# On all processors, next to what is downloaded, and without the packages' own tests. Some files are
# templates, which do not compile.
.venv/bin/python -m compileall -q -j 0 -x /tests/ .venv/lib >/dev/null 2>&1 &
.venv/bin/harness engines install postgres
if [ "$what" = dev ]; then
  wait "$by_apt"
  # Next to what is downloaded, the tests: else each of six workers would compile them.
  .venv/bin/pytest -q --collect-only >/dev/null 2>&1 &
  # What Maven downloads, next to what apt and pip do.
  .venv/bin/harness engines install rocksdb voltdb mysql=8.0.15 postgres=17.6 &
  by_maven=$!
  complete=yes
  .venv/bin/harness engines install mysql mariadb spark || complete=no
  wait "$by_maven" || complete=no
  [ "$complete" = yes ] || say "tests of engines that are not installed cannot pass"
else
  say "for MySQL, MariaDB, RocksDB, Spark, VoltDB: .venv/bin/harness engines install NAME"
fi
wait
touch .venv/.setup
[ "$what" != dev ] || touch .venv/.setup-dev
say "done: .venv/bin/harness (try: .venv/bin/harness doctor)"
