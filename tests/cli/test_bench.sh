#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tessera bench, from outside: that it measures what was asked for; how fast anything is does not matter here.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"
. "$SOURCE_ROOT/tests/cli/bench.sh"

# Command lines that are wrong.
bench 2
stderr_has '--transformer-base'
bench 2 --model "$model" --transformer-base
bench 2 --model "$model" more
for bad in '' 0 x '1,' 1,0 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17; do
  bench 2 --model "$model" --batch "$bad"
  stderr_has '--batch'
done
bench 2 --model "$model" --beam 65
bench 2 --model "$model" --threads 0
bench 2 --model "$model" --what sleep
stderr_has 'encode'
bench 2 --model "$model" --precision f64
bench 2 --model "$model" --device ,
bench 2 --model "$model" --batch 1,2,3,4,5,6,7,8,9,10,11,12,13 --beam 1,2,3,4,5
stderr_has '64'
bench 3 --model "$work/none"
stderr_has "$work/none"
stdout_is_empty
bench 4 --model "$model" --device no-such-device
stderr_has 'no-such-device'
stdout_is_empty
TMPDIR=$work/none bench 3 --transformer-base
stderr_has "$work/none"

# The processes that measure are a command that is for `bench` alone.
bench 2 worker </dev/null
stderr_has 'worker'
bench 0 worker --help
stdout_has 'Measures'
bench 0 --help
check "$last: tells of the worker" sh -c '! grep -q "bench worker" "$1"' - "$out"

# Every combination, once each; only generating has a beam.
small="--model $model --device reference --source 3 --target 2 --repeat 1"
# shellcheck disable=SC2086
bench 0 $small --what generate,encode,decode --beam 1,2 --threads 1 --profile --json
stderr_is_empty
check "$last: not 4 configurations" test "$(wc -l <"$out")" = 4
for i in 1 2 3 4; do
  line $i
  text device reference:0
  text threads 1
  number tokens_per_second.median
  number tokens_per_second.min
  number tokens_per_second.max
  number peak_memory
  number profile.products
  number profile.attention
  number profile.other_percent
  number profile.operators.matmul
done
line 1
text what generate
text beam 1
number encode_ms.median
number step_ms.median
line 2
text beam 2
line 4
text what decode

# More sentences than a batch holds, on two threads.
# shellcheck disable=SC2086
bench 0 $small --batch 2 --sentences 3 --workers 1,2 --json
line 1
text workers 1
line 2
text workers 2
text sentences 3

# For people.
# shellcheck disable=SC2086
bench 0 $small --precision f16,int8 --batch 1,2 --profile
check "$last: not 4 rows" test "$(grep -c '^reference:0 .* generate ' "$out")" = 4
stdout_has 'tokens/s'
stdout_has 'f16'
stdout_has 'int8'
stdout_has 'outside products and attention'

# The machine.
bench 2 machine --product 3x4
bench 2 machine --product 3x4x0
bench 2 machine --product 3x4x5q
stderr_has '3x4x5q'
bench 2 machine more
bench 2 machine --memory 0
bench 4 machine --no-blas --device no-such-device --memory 1
bench 0 machine --no-blas --device reference --precision f32,bf16 --product 2x16x8,2x16x8n,1x64x32s --memory 1 \
  --threads 1,2 --repeat 1 --json
# Those of matrix units, where there are some, come last.
check "$last: not 2 + 3 * 4 lines" test "$(grep -vc tiles_bf16_gflops "$out")" = 14
line 1
number memory_read
number gb_per_second
line 3
text product 2x16x8
text side reference:0
text precision f32
text of_memory null
number gflops
line 14
text product 1x64x32s
text precision bf16
text threads 2
number of_memory
bench 0 machine --no-blas --device reference --precision int8 --product 2x16x8,1x64x32sn --memory 1 --threads 1 \
  --repeat 1
stdout_has 'int8'
bench 0 machine --no-blas --no-device --memory 1 --threads 1 --repeat 1
stdout_has '1 thread:'

# From start to end.
head -n 2 "$model/sample.en" >"$work/two.en"
bench 2 translate "$work/two.en"
bench 2 translate --model "$model"
bench 2 translate --model "$model" one two
bench 3 translate --model "$model" "$work/none"
stderr_has "$work/none"
bench 3 translate --model "$model" /dev/null
bench 3 translate --model "$work/none" "$work/two.en"
bench 4 translate --model "$model" --device no-such-device "$work/two.en"
bench 0 translate --model "$model" --device reference --beam 1,2 --repeat 1 --json "$work/two.en"
check "$last: not 2 configurations" test "$(wc -l <"$out")" = 2
for i in 1 2; do
  line $i
  text beam $i
  text model "$model"
  text sentences 2
  number seconds.median
  number first_ms.median
  number peak_memory
done
bench 0 translate --model "$model" --device reference --precision int8 --beam 1 --repeat 1 "$work/two.en"
stdout_has '2 sentences'
long=$work/a-folder-for-temporary-files-whose-name-is-longer-than-such-names-usually-are
mkdir "$long"
before=${TMPDIR:-/tmp}
export TMPDIR="$long"
bench 0 translate --model "$model" --device reference --beam 1 --repeat 1 "$work/two.en"
check "$last: something was left in TMPDIR" rmdir "$long"
export TMPDIR="$before"

# Help of each.
for what in machine translate; do
  bench 0 $what --help
  stdout_has "Usage: tessera bench $what"
done

finish
