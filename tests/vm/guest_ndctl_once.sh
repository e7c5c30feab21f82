#!/bin/sh
# Mounted over ndctl, which lies in /run meanwhile: it makes one fsdax namespace. In place of
# making the next it says so in /run, and waits for the loss of power, with which all that is gone.
if [ "$1" = create-namespace ] && /run/ndctl list -N | grep -q fsdax; then
    touch /run/second-namespace
    exec sleep infinity
fi
exec /run/ndctl "$@"
