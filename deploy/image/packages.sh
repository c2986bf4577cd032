#!/bin/sh
# packages.sh LIST: installs a list's Debian packages in the image that it runs in, and leaves no cache. A line of
# the list is packages, or a comment.
set -eu
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
# shellcheck disable=SC2046
apt-get install -qy --no-install-recommends $(sed 's/#.*//' "$1")
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb /var/log/*
