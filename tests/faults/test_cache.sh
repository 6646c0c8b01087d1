#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the Vulkan backend keeps on disk is taken only where it is this user's own file: anything else is ignored, with
# the reason, and nothing waits for it.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"

unset TESSERA_PIPELINE_CACHE TESSERA_TUNING
if ! "$TESSERA" devices --names | grep -q '^vulkan:0$'; then
  echo 'skipped: there is no Vulkan device'
  exit 77
fi
export XDG_CACHE_HOME="$work/cache"
case=$("$TESSERA" check --list --ops add | head -n 1)

# use [FRAGMENT]: the device is opened and closed, within a minute; that fragment is told, or nothing is.
use()
{
  n_checks=$((n_checks + 1))
  last="check, ${1:-nothing wrong}"
  code=0
  timeout 60 "$TESSERA" check --devices vulkan:0 --case "$case" >"$out" 2>"$err" || code=$?
  [ $code = 0 ] || failure "$last: exit code $code"
  if [ $# = 1 ]; then
    stderr_has "$1"
  else
    stderr_is_empty
  fi
}

use
file=$(find "$work/cache/tessera" -name '*.bin')
check 'nothing was kept' test -s "$file"
cp "$file" "$work/good.bin"
printf 'tessera variants 1\n' >"$work/good.variants"
use

for suffix in bin variants; do
  path=${file%.bin}.$suffix
  what='pipeline cache'
  [ $suffix = bin ] || what='table of variants'
  told="vulkan: the $what $path is ignored: "

  rm -f "$path"
  mkfifo "$path"
  use "${told}it is no regular file"
  rm -f "$path"
  ln -s "$work/good.$suffix" "$path"
  use "${told}it is a symbolic link"
  for mode in 620 602 666; do
    rm -f "$path"
    cp "$work/good.$suffix" "$path"
    chmod $mode "$path"
    use "${told}other users may write it"
  done
  if [ "$(id -u)" = 0 ]; then
    rm -f "$path"
    cp "$work/good.$suffix" "$path"
    chown 12345 "$path"
    use "${told}it belongs to another user"
  fi
  rm -f "$path"
  cp "$work/good.$suffix" "$path"
  chmod 600 "$path"
  use
done

finish
