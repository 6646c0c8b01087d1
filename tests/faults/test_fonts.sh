#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fonts that were installed while a picture was drawn do not end the program.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"

export LD_PRELOAD="$ABORTING_FONTCONFIG"
if "$TESSERA" attention "$model" 'The cat sleeps.' --device cpu --png "$work/cross.png" >"$out" 2>"$err"; then
  check 'no picture' test -s "$work/cross.png"
elif grep -q -F 'draws no PNG' "$err"; then
  echo 'skipped: this build draws no PNG'
  exit 77
else
  failure 'attention --png fails'
fi

finish
