#!/bin/sh
# Mounted over ndctl or mkfs.ext4, which lie in /run meanwhile: once a namespace or a file system is
# made, whoever asked for it is killed before it hears of that.
"/run/${0##*/}" "$@"
code=$?
case "${0##*/} $1" in
    "ndctl create-namespace" | mkfs.ext4*) kill -9 $PPID ;;
esac
exit $code
