#!/bin/sh
# A file system of its own for a directory: small-disk.sh DIRECTORY SIZE. As root; one that an earlier run left there is replaced.
set -eu
mkdir -p "$1"
umount "$1" 2>/dev/null || :
mount -t tmpfs -o "size=$2,mode=0700" quake "$1"
