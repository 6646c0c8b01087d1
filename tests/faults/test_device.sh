#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A device that fails in the middle of a file: what is finished is printed, and the message says up to which line; where
# `auto` took the device, another one takes its place, and the output is what it would have been.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"

unset TESSERA_DEVICE TESSERA_FAILING_RUNS TESSERA_FAILING_DEVICES TESSERA_FAILING_AHEAD
export TESSERA_BACKEND_PATH="$FAILING_CPU:$BUILD_ROOT/backends/cpu"
# Of falling length, so that sentences are finished in the order of the lines.
for _ in 1 2 3; do cat "$model/sample.en"; done |
  awk '{ print length($0) "\t" $0 }' | sort -rn | cut -f 2- >"$work/text.en"
n_lines=$(wc -l <"$work/text.en")

# translate CODE ARGUMENT...
translate()
{
  expected_code=$1
  shift
  run "$expected_code" translate --model "$model" --beam 1 --max-length 20 --batch 2 "$@" "$work/text.en"
}

translate 0 --device failing
cp "$out" "$work/good"
check "not $n_lines lines" test "$(wc -l <"$work/good")" = "$n_lines"
stderr_is_empty

# fails_at RUNS OPTION..: a device that was named fails at that run: the lines before the first that is missing, and
# which that is. $most is the largest number of them so far.
fails_at()
{
  runs=$1
  shift
  export TESSERA_FAILING_RUNS="$runs"
  translate 4 --device failing:0 "$@"
  n=$(wc -l <"$out")
  head -n "$n" "$work/good" >"$work/expected"
  check "$runs runs $*: other lines" cmp -s "$out" "$work/expected"
  stderr_has 'failing:0: the device stopped answering'
  if [ "$n" -gt 0 ]; then
    stderr_has "text.en: the lines up to $n are translated; line $((n + 1)) and what follows are not"
  fi
  [ "$n" -gt "$most" ] && most=$n
}

most=0
for runs in 1 40 90; do
  fails_at "$runs"
done
check "at most $most lines were printed" test "$most" -ge 4

# The same where it fails while several steps are under way.
export TESSERA_FAILING_AHEAD=1
most=0
for steps in 1 4; do
  for runs in 1 2 3 40 41 90; do
    fails_at "$runs" --steps-per-submit "$steps"
  done
done
check "at most $most lines were printed with steps under way" test "$most" -ge 4
unset TESSERA_FAILING_AHEAD
export TESSERA_FAILING_RUNS=90
export TESSERA_DEVICE=failing
translate 4
stderr_has 'failing:0: the device stopped answering'
unset TESSERA_DEVICE

# Another device that was named beside it takes what it has not finished.
unset TESSERA_FAILING_RUNS
translate 0 --device failing
cp "$out" "$work/good"
for runs in 1 5 40; do
  export TESSERA_FAILING_RUNS="$runs"
  for devices in failing,cpu cpu,failing; do
    translate 0 --device "$devices"
    check "$devices, $runs runs: other lines" cmp -s "$out" "$work/good"
    if [ "$runs $devices" = '1 failing,cpu' ]; then # the first one always has a share
      stderr_has 'failing:0: the device stopped answering; going on without it'
    fi
  done
done

# The same for pairs that are scored: their sums to four digits, for another batch rounds differently.
cp "$work/good" "$work/text.fr"
score()
{
  expected_code=$1
  shift
  run "$expected_code" score "$model" --source "$work/text.en" --target "$work/text.fr" --batch 2 "$@"
  awk '{ printf "%.4f\n", $1 }' "$out" >"$work/sums"
}
unset TESSERA_FAILING_RUNS
score 0 --device cpu
cp "$work/sums" "$work/good.sums"
check 'score: not a line for each pair' test "$(wc -l <"$work/sums")" = "$n_lines"
for runs in 1 4 9; do
  export TESSERA_FAILING_RUNS="$runs"
  for devices in failing,cpu cpu,failing; do
    score 0 --device "$devices"
    check "score, $devices, $runs runs: other scores" cmp -s "$work/sums" "$work/good.sums"
  done
  score 4 --device failing:0
  stderr_has 'failing:0: the device stopped answering'
done

export TESSERA_FAILING_DEVICES=2 TESSERA_FAILING_RUNS=20
translate 4 --device failing:0,failing:1
stderr_has 'the device stopped answering; going on without it'
unset TESSERA_FAILING_DEVICES

# Many threads whose device it is: each text has its answer, and the first error is told.
unset TESSERA_FAILING_RUNS
run 0 bench load --model "$model" --device failing:0 --closed --threads 8 --repeat 1 --beam 1 "$work/text.en"
export TESSERA_FAILING_RUNS=60
run 4 bench load --model "$model" --device failing:0 --closed --threads 8 --repeat 1 --beam 1 "$work/text.en"
stderr_has 'failing:0: the device stopped answering'
export TESSERA_FAILING_RUNS=90

# auto took it: the cpu backend goes on with the pairs.
for runs in 1 9; do
  export TESSERA_FAILING_RUNS="$runs"
  score 0
  check "score, auto, $runs runs: other scores" cmp -s "$work/sums" "$work/good.sums"
  stderr_has 'going on with cpu:0'
done
export TESSERA_FAILING_RUNS=90

# .. and with each kind of search; sampling draws what it would have drawn.
head -n 10 "$work/text.en" >"$work/fewer.en"
mv "$work/fewer.en" "$work/text.en"
for search in '' '--n-best 2 --beam 2' '--sample --seed 5' '--stream' '--alternatives 2'; do
  unset TESSERA_FAILING_RUNS
  # shellcheck disable=SC2086 # options
  translate 0 --device failing $search
  cp "$out" "$work/good"
  for runs in 1 50; do
    export TESSERA_FAILING_RUNS=$runs
    # shellcheck disable=SC2086 # options
    translate 0 $search
    check "$last, $runs runs: another translation" cmp -s "$out" "$work/good"
    stderr_has 'warning: failing:0: the device stopped answering'
    stderr_has 'going on with cpu:0'
  done
done
translate 0 --device auto
stderr_has 'going on with cpu:0'

# One after the other, until none is left.
export TESSERA_FAILING_DEVICES=3 TESSERA_FAILING_RUNS=20
translate 0
stderr_has 'going on with failing:1'
stderr_has 'going on with failing:2'
stderr_has 'going on with cpu:0'
export TESSERA_BACKEND_PATH="$FAILING_CPU"
if ! "$TESSERA" devices --names | grep -q -v '^failing:'; then
  translate 4
  stderr_has "there is no device that 'auto' may choose"
fi

# eval goes on, too.
export TESSERA_BACKEND_PATH="$FAILING_CPU:$BUILD_ROOT/backends/cpu" TESSERA_FAILING_DEVICES=1
head -n 4 "$model/sample.en" >"$work/four.en"
head -n 4 "$model/sample.fr" >"$work/four.fr"
run 0 eval "$model" --beam 1 --batch 2 --source "$work/four.en" --reference "$work/four.fr"
stderr_has 'going on with cpu:0'

# Sounds: what has ended before is written, to files or in order.
recordings=$SOURCE_ROOT/tests/data/goldens/speech
hear()
{
  expected_code=$1
  shift
  run "$expected_code" transcribe "$recordings/features/fox.wav" "$recordings/features/long31.wav" \
    --model "$recordings/models/whisper_tiny_random" --language en --temperature 0 --device failing:0 "$@"
}
unset TESSERA_FAILING_RUNS
mkdir "$work/heard" "$work/heard_before"
hear 0
cp "$out" "$work/good"
hear 0 --out "$work/heard"
check 'sounds: not both files' test -s "$work/heard/long31.txt"
export TESSERA_FAILING_RUNS=60
hear 4 --out "$work/heard_before"
stderr_has 'failing:0: the device stopped answering'
check 'sounds: what had ended is not written' cmp -s "$work/heard/fox.txt" "$work/heard_before/fox.txt"
check 'sounds: what had not ended is written' test ! -e "$work/heard_before/long31.txt"
hear 4
check 'sounds: what had ended is not printed' test -s "$out"
head -n "$(wc -l <"$out")" "$work/good" >"$work/expected"
check 'sounds: something else is printed' cmp -s "$out" "$work/expected"
check 'sounds: all is printed' test "$(wc -l <"$out")" -lt "$(wc -l <"$work/good")"

finish
