#!/bin/sh
# Mounted over ndctl or mkfs.ext4 while the real program is in /run: kill the calling process as soon
# as a namespace or a file system has been created, before it reads the result.
"/run/${0##*/}" "$@"
code=$?
case "${0##*/} $1" in
    "ndctl create-namespace" | mkfs.ext4*) kill -9 $PPID ;;
esac
exit $code
