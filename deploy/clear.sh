#!/bin/sh
# clear.sh FOLDER: removes a root that an earlier run made. What such a run, cut off, left mounted at or below it, of the
# host's own folders too, is unmounted first: --one-file-system alone goes into a bind mount from the same disk.
# What can't be unmounted stops it, with nothing removed. As root where there are mounts.
set -eu
at=$(realpath "$(dirname "$1")")/$(basename "$1")
# The table of mounts writes a space as \040; the last mounted comes first.
AT=$(printf %s "$at" | sed 's/ /\\040/g') awk 'index($2 "/", ENVIRON["AT"] "/") == 1 { print NR, $2 }' /proc/self/mounts |
    sort -rn | while read -r _ mount; do
    umount "$(printf %b "$mount")"
done
rm -rf --one-file-system "$at"
