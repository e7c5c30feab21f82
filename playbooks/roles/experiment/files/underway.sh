#!/bin/sh
# A command that outlives the connection it is started through; whoever comes back finds it again.
#
#   underway.sh start FOLDER COMMAND...   unless one is under way (exit 3)
#   underway.sh ask FOLDER SECONDS        wait so long for its end, then tell: "under way",
#                                         "ended N" (its exit status), "lost" (it was killed, or
#                                         the host restarted) or "nothing"; then the command, a
#                                         word a line
#
# FOLDER has its words (command), what it printed (out, err) and, at its end, rc. The kernel holds
# `lock` for exactly as long as it is under way.
set -eu
task=$1 folder=$2
shift 2
(
  umask 077 # whoever can open the lock can hold it for ever
  mkdir -p "$folder"
  : >>"$folder/lock"
)
cd "$folder"
case $task in
  start)
    exec 9>>lock
    flock -n 9 || exit 3
    rm -f rc
    printf '%s\n' "$@" >./command
    # The command itself does not inherit the lock: what it leaves behind does not hold it.
    # shellcheck disable=SC2016 # expanded by the inner shell
    setsid sh -c '"$@" >out 2>err 9>&- && rc=0 || rc=$?; echo $rc >rc.new; mv rc.new rc' sh "$@" \
      </dev/null >/dev/null 2>&1 &
    ;;
  ask)
    if ! flock -w "$1" lock true; then
      echo 'under way'
    elif [ -e rc ]; then
      echo "ended $(cat rc)"
    elif [ -e command ]; then
      echo lost
    else
      echo nothing
    fi
    cat command 2>/dev/null || true
    ;;
esac
