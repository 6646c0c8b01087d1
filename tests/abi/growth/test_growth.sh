#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# test_growth.sh TESSERA MODEL BACKENDS PROGRAM..: programs that were compiled with other headers than the library
# translate as `tessera` does.
set -eu
tessera=$1
model=$2
backends=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
text='We often play tennis together on Sundays.'
printf '%s\n' "$text" | "$tessera" translate --model "$model" --device cpu --beam 1 >"$work/expected"
for program in "$@"; do
  "$program" "$model" "$backends" "$text" >"$work/found"
  cmp "$work/expected" "$work/found" || { echo "$program: another translation" >&2; exit 1; }
done
