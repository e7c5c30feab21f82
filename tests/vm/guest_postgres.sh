#!/bin/bash
# A PostgreSQL server inside the test machine, by itself: what the machine's host measures
# through a tunnel. It listens on a unix socket only, and asks for a password.
#
#   guest_postgres.sh make DATA WAL   (the password on standard input)
#   guest_postgres.sh start DATA [SETTING=VALUE …]   (anew, if it runs)
set -euo pipefail
PATH=$PATH:$(echo /usr/lib/postgresql/*/bin)
as_postgres() { (cd / && runuser -u postgres -- "$@"); }

case $1 in
make)
    data=$2 wal=$3
    mkdir -p "$(dirname "$data")" "$(dirname "$wal")"
    install -d -o postgres -m 700 "$data" "$wal"
    secret=$(as_postgres mktemp)
    trap 'rm -f "$secret"' EXIT
    as_postgres tee "$secret" >/dev/null # who owns it: in /tmp not even root may write over it
    as_postgres initdb -D "$data" --waldir="$wal" -U harness -A scram-sha-256 \
        --pwfile="$secret" --data-checksums -E UTF8 --locale=C >/dev/null
    printf '%s\n' "listen_addresses = ''" "max_connections = 50" >>"$data/postgresql.conf"
    ;;
start)
    data=$2
    shift 2
    if as_postgres pg_ctl -D "$data" status >/dev/null; then
        as_postgres pg_ctl -D "$data" -s -w -t 600 -m fast stop
    fi
    # Recovery on an emulated processor takes its time.
    as_postgres pg_ctl -D "$data" -s -w -t 600 -l "$data/log" -o "${*/#/-c }" start ||
        { tail -20 "$data/log"; exit 1; }
    ;;
esac
