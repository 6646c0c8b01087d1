#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The site of the pages and the reference of the C library are made without a warning. Skipped without mkdocs or
# doxygen.
set -eu
for program in mkdocs doxygen; do
  command -v $program >/dev/null || {
    echo "skipped: $program is not installed"
    exit 77
  }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$SOURCE_ROOT/tools/manual/site" "$work"
for file in index.html tessera.html translate.html examples.html api/index.html api/translator_8h.html \
  api/structtsr__translation__request.html; do
  [ -s "$work/site/$file" ] || {
    echo "FAILED: there is no $file"
    exit 1
  }
done
grep -q 'seconds after which an unfinished text is answered' "$work/site/api/structtsr__translation__request.html" || {
  echo "FAILED: the reference does not have the headers' comments"
  exit 1
}
! grep -q 'href="[^"]*\.\./\.\.' "$work"/site/*.html || {
  echo "FAILED: a link leads out of the site"
  exit 1
}
