#!/bin/bash
# python3 for a machine whose / is on persistent memory: in a mount namespace of its own that is
# the truth. The file system of that label must have been prepared (`prepare`); it is mounted
# read-only, so that not even its superblock changes.
set -euo pipefail
root=LABEL=guest-root
folders=(usr etc dev proc sys root tmp var run opt)

if [ "${1-}" = prepare ]; then
    mount "$root" /mnt
    (cd /mnt && mkdir old "${folders[@]}")
    cp -a /bin /sbin /lib /lib64 /mnt/
    umount /mnt
elif [ "${1-}" != inside ]; then
    exec unshare --mount --propagation private "$0" inside "$@"
else
    shift
    mount -o ro "$root" /mnt
    for folder in "${folders[@]}"; do
        mount --rbind "/$folder" "/mnt/$folder"
    done
    cd /mnt
    pivot_root . old
    umount -l /old
    exec /usr/bin/python3 "$@"
fi
