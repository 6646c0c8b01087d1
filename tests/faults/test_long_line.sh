#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A line of 10 MB without a blank: what is cut off is not tokenized, so that neither memory nor time goes there.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"

export TESSERA_BACKEND_PATH="$BUILD_ROOT/backends/cpu" TESSERA_THREADS=1
unset TESSERA_DEVICE
awk 'BEGIN { srand(3); for (i = 0; i < 10000000; i++) printf "%c", 97 + int(26 * rand()); print "" }' >"$work/long.en"
head -n 1 "$model/sample.en" >>"$work/long.en"
check 'no line of 10 MB' test "$(wc -c <"$work/long.en")" -gt 10000000
head -n 1 "$model/sample.fr" >"$work/second"

# limited CODE HOW: within 1 GB of addresses.
limited()
{
  n_checks=$((n_checks + 1))
  last="--long-input $2"
  code=0
  (
    # shellcheck disable=SC3045 # dash and bash have it
    ulimit -v 1000000
    "$TESSERA" translate --model "$model" --device cpu --beam 1 --max-length 24 --long-input "$2" "$work/long.en"
  ) >"$out" 2>"$err" || code=$?
  [ $code = "$1" ] || failure "$last: exit code $code, expected $1"
  sed -n 2p "$out" >"$work/found"
  check "$last: the other line" cmp -s "$work/found" "$work/second"
}

limited 0 cut
stderr_has 'long.en, line 1: more than '
stderr_has ' tokens, cut to 256 positions'
limited 3 error
stderr_has 'long.en, line 1: more than '
stderr_has ' tokens; the model takes at most 256'

finish
