#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# docs/hardware.md is what tools/reports/page makes of the reports, each of which has a column there.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"

cd "$SOURCE_ROOT" || exit 1
: >"$out"
check 'tools/reports/page failed' sh -c 'tools/reports/page >"$1" 2>"$2"' - "$work/made.md" "$err"
check 'docs/hardware.md is another: tools/reports/page --write' cmp -s "$work/made.md" docs/hardware.md
devices=$(cat tools/reports/*.json | grep -c '^   "words":')
columns=$(sed -n 's/^| device |//p' docs/hardware.md | tr -cd '|' | wc -c)
check "$devices devices in tools/reports, $columns columns" test "$devices" = "$columns"
finish
