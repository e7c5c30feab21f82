#!/bin/bash
# Lays out the two NVDIMMs of the test machine: one namespace of every kind, and the
# file systems that the probe is to tell apart. Prints nothing; fails at the first error.
set -euo pipefail

# Blank label areas come up as label-less raw namespaces: write labels first.
ndctl disable-region all
ndctl init-labels -f all
ndctl enable-region all

make() { # make REGION MODE SIZE [option …]: prints the block device
    local region=$1 mode=$2 size=$3
    shift 3
    ndctl create-namespace -r "$region" -m "$mode" -s "$size" "$@" |
        sed -n 's#.*"\(blockdev\|chardev\)":"\([^"]*\)".*#/dev/\2#p'
}
put() { # put DEVICE MKFS DIRECTORY [mount option …]
    local device=$1 mkfs=$2 directory=$3
    shift 3
    $mkfs "$device"
    mkdir -p "$directory"
    mount "$@" "$device" "$directory"
}
# Small ext4 file systems get 1 KiB blocks, and DAX needs the page size.
ext4="mkfs.ext4 -q -F -b 4096 -E lazy_itable_init=0,lazy_journal_init=0"
xfs="mkfs.xfs -q -f"

lay_out_region0() {
    put "$(make region0 fsdax 336M)" "$ext4" /mnt/ext4-dax -o dax
    put "$(make region0 fsdax 400M)" "$xfs" /mnt/xfs-dax -o dax=always
    put "$(make region0 sector 400M -l 4096)" "$xfs" /mnt/xfs-on-sector -o dax=always
    put "$(make region0 sector 128M -l 4096)" "$ext4" /mnt/ext4-on-sector
    mkdir -p /mnt/unmounted "/mnt/with blank"
    mount --bind /mnt/ext4-dax/lost+found "/mnt/with blank"
}
lay_out_region1() {
    put "$(make region1 fsdax 128M)" "$ext4" /mnt/ext4-nodax
    put "$(make region1 raw 128M)" "$ext4" /mnt/ext4-on-raw
    put "$(make region1 fsdax 128M)" "$ext4" /mnt/read-only -o ro,dax
    put "$(make region1 fsdax 128M)" "$ext4" /mnt/dax-inode -o dax=inode
    mkdir /mnt/dax-inode/plain /mnt/dax-inode/flagged
    xfs_io -c 'chattr +x' /mnt/dax-inode/flagged
    make region1 devdax 256M # dax1.4
    make region1 devdax 512M # dax1.5: 502 MiB, three whole memory blocks of 128 MiB
    modprobe kmem
    daxctl reconfigure-device --mode=system-ram dax1.5
}
# Both at once: the machine has two processors, and each is slow.
lay_out_region0 &
lay_out_region1
wait $!
