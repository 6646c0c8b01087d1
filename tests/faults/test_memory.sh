#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Allocations that fail, one a run, evenly over all that a translation makes: the program ends with a message and exit
# code 5 (4 where the system's loader had no memory for a library), or with the translation where the allocation was not
# needed. It never ends by a signal.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"

runs=$1
export TESSERA_BACKEND_PATH="$BUILD_ROOT/backends/cpu" TESSERA_THREADS=1
unset TESSERA_DEVICE
head -n 1 "$model/sample.en" >"$work/one.en"

# translate NUMBER ALL: the run in which allocation NUMBER fails, and with ALL 1 all after it; $code is how it ended.
translate()
{
  code=0
  LD_PRELOAD="$FAILING_MALLOC" TESSERA_FAIL_AT=$1 TESSERA_FAIL_ALL=$2 TESSERA_FAIL_COUNT="$work/count" \
    "$TESSERA" translate --model "$model" --device cpu --beam 1 --max-length 8 "$work/one.en" \
    >"$out" 2>"$err" || code=$?
}

translate 0 0
check 'without failures it fails' test $code = 0
cp "$out" "$work/good"
count=$(cat "$work/count")
check "only $count allocations" test "$count" -gt 10000

index=0
n_memory=0
while [ $index -lt "$runs" ]; do
  number=$((index * count / runs + 1 + index * 7919 % (count / runs)))
  all=$((index % 4 == 3))
  translate $number $all
  last="allocation $number of $count fails (all after it: $all)"
  case $code in
    0) check "$last: another translation" cmp -s "$out" "$work/good" ;;
    4) check "$last: exit code 4 without a reason" grep -q -i 'memory' "$err" ;;
    5)
      n_memory=$((n_memory + 1))
      check "$last: no message" grep -q 'memory' "$err"
      ;;
    *) failure "$last: exit code $code" ;;
  esac
  index=$((index + 1))
done
check "only $n_memory of $runs ended with exit code 5" test $n_memory -ge $((runs * 9 / 10))

finish
