#!/usr/bin/env bash
# Create the system user that database servers and their clients run as, where it is missing.
#
#   sudo scripts/create-user.sh
#
# It has no home, no shell and no password, and nothing else runs as it: what breaks into a server
# gets none of another service's files. Without it servers run as "nobody", which others share.
set -euo pipefail
user=tierbench

getent passwd "$user" >/dev/null && exit 0
useradd --system --user-group --home-dir /nonexistent --no-create-home \
  --shell /usr/sbin/nologin --comment "tierbench servers" "$user"
printf 'setup: created the system user %s: database servers run as it\n' "$user" >&2
