#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A backend has no thread-local variables. Those of a library that is opened while the program runs lie in a block that
# LeakSanitizer of clang 14 may read beyond its end, and crash.
# Usage: thread_variables.sh BACKEND...
set -eu
for backend in "$@"; do
  segments=$(readelf -lW "$backend")
  case $segments in
  *LOAD*) ;;
  *) echo "$backend: readelf lists no segments" >&2 && exit 1 ;;
  esac
  if printf '%s\n' "$segments" | grep -qw TLS; then
    echo "$backend has thread-local variables:" >&2
    readelf -sW "$backend" | grep -w TLS >&2
    exit 1
  fi
done
