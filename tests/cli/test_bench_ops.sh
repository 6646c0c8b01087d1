#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tessera bench ops, start, load and compare, from outside: that they measure and compare what was asked for; how fast
# anything is does not matter here.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"
. "$SOURCE_ROOT/tests/cli/bench.sh"

# Operators: command lines that are wrong.
bench 2 ops more
bench 2 ops --op sleep
stderr_has "'sleep'"
for bad in '' 3 3x 3x0 x3 3x4x5x6x7 3,4 3x-4 3x+4 3x4q; do
  bench 2 ops --op add --shapes "$bad"
  stderr_has '--shapes'
done
bench 2 ops --op add --shapes 2x3x4
stderr_has "'2x3x4'"
bench 2 ops --precision f64
bench 2 ops --repeat 0
bench 4 ops --device no-such-device
stderr_has 'no-such-device'
stdout_is_empty
bench 2 ops --device reference --variant matmul.none
stderr_has "'matmul.none'"
stdout_is_empty
bench 0 ops --help
stdout_has 'Usage: tessera bench ops'
stdout_has '37000x8x512'
stdout_has 'queries x keys x heads x head size'

# Operators take turns if the time is limited; what it was too short for is told.
bench 0 ops --device reference --op add,softmax --shapes 2x16,3x16 --repeat 1 --no-roofline --minutes 9 --json
check "$last: the operators do not take turns" test \
  "$(sed 's/.*"op": "\([a-z]*\)", "shape": "\([0-9x]*\)".*/\1 \2/' "$out" | tr '\n' ,)" \
  = 'softmax 2x16,add 2x16,softmax 3x16,add 3x16,'
bench 0 ops --device reference --minutes 0.001 --repeat 1 --no-roofline
stdout_has ' cases were not measured in 0.001 minutes'
bench 0 ops --device reference --minutes 0.001 --repeat 1 --no-roofline --json
measured=$(grep -c '"op"' "$out")
left=$(sed -n 's/^{"not_measured": \([0-9]*\)}$/\1/p' "$out")
bench 0 ops --device reference --dry --json
check "$measured measured, ${left:-none} left" test "$((measured + left))" = "$(wc -l <"$out")"

# Rooflines come first.
bench 0 ops --device reference --op add --shapes 2x16 --precision f16 --repeat 1 --json
check "$last: not 3 rooflines and a case" test "$(wc -l <"$out")" = 4
line 1
text op 'large copy'
number gb_per_second
number bytes_per_second.median
line 2
text op 'large product'
text precision f32
number gflops
number flops_per_second.min
number flops_per_second.max
line 3
text precision f16
check "$last: a size, found by trial, among what lines are known by" \
  test "$(grep -c '"shape"' "$out") $(grep -c '"size"' "$out")" = '1 3'
check "$last: times of another size" test "$(grep -c '_us"' "$out")" = 1
# Another size, at which a device reaches as much, is no change.
sed 's/"size": "[0-9x]*"/"size": "1x1"/' "$out" >"$work/other"
cp "$out" "$work/rooflines"
bench 0 compare "$work/rooflines" "$work/other" --fail-below 1 --json
line 1
text of 'large copy f32 reference:0'
text number bytes_per_second
line 3
text of 'large product f16 reference:0'
cp "$work/rooflines" "$out"
line 4
text op add
text precision f32
number of_product
number of_copy

# Every operator.
bench 0 ops --device reference --shapes 2x16,3x8x5,4x2x8x3 --repeat 1 --no-roofline --json
stderr_is_empty
cp "$out" "$work/old"
check "$last: not 12 cases" test "$(wc -l <"$out")" = 12
for n in 1 2 3 4 5 6 7 8 9 10 11 12; do
  line $n
  text device reference:0
  number single_us.median
  number single_us.min
  number single_us.max
  number each_us.median
  number each_device_us.median
  number lines
  number bytes
  number gb_per_second
  text of_copy null
done
line 1
text op matmul
text shape 3x8x5
text supported true
text flops 240.0
text bytes 316.0
text lines 64
text repeat 1
line 4
text op conv1d
text flops 192.0
line 1
check "$last: no driver" test -n "$(json driver "$work/json")"
check "$last: no name" test -n "$(json device_name "$work/json")"
check "$last: no date" grep -q '"date": "20[0-9-]*T[0-9:]*Z"' "$work/json"

# Types are those of matrices, and of attention's keys and values.
bench 0 ops --device reference --op matmul,add,attention --shapes 3x8x5,2x16,4x8x2x4 --precision f16,int8 --repeat 1 \
  --no-roofline --json
check "$last: not 4 cases" test "$(wc -l <"$out")" = 4
line 1
text precision f16
line 2
text precision int8
text bytes 283.0
line 3
text op attention
text precision f16
line 4
text op add
text precision f32

# The memory alone.
bench 0 ops --device reference --op add_norm,add --shapes 4x512 --dry --json
check "$last: not 2 cases" test "$(wc -l <"$out")" = 2
line 2
text op add_norm
text scratch_bytes 8192
text flops 18432.0
check "$last: times" sh -c '! grep -q single_us "$1"' - "$out"
bench 0 ops --device reference --op add_norm --shapes 4x512 --dry
stdout_has '8.0 KiB'

# For people.
bench 0 ops --device reference,cpu --op add,softmax --shapes 2x16 --repeat 1 --no-roofline
stdout_has 'of copy'
check "$last: not 2 rows of each" test "$(grep -c '^softmax .*\(cpu\|reference\):0 ' "$out")" = 2

# Variants, where there is Vulkan.
if "$TESSERA" devices --names | grep -q '^vulkan:0$'; then
  bench 0 ops --device vulkan:0 --op matmul --shapes 8x8x8 --variant matmul.generic,matmul.plain --repeat 1 \
    --no-roofline --json
  check "$last: not 2 cases" test "$(wc -l <"$out")" = 2
  line 1
  text variant matmul.generic
  text form matmul.generic
  line 2
  text variant matmul.plain
  bench 0 ops --device vulkan:0 --op matmul --shapes 8x8x8 --variant matmul.generic --repeat 1 --no-roofline
  stdout_has 'matmul.generic'
  # Attention keeps no scores in memory: with 8 heads they would take 2 GiB.
  bench 0 ops --device vulkan:0 --op attention --shapes 8192x8192x8x64 --precision f32,f16 --dry --json
  for n in 1 2; do
    line $n
    n_checks=$((n_checks + 1))
    [ "$(json scratch_bytes "$work/json")" -lt 64000000 ] || failure "$last: 64 MB and more"
  done
fi

# What a device lacks is told, and does not end it.
mkdir "$work/backends"
cp "$BUILD_ROOT/backends/template/libtessera-backend-template.so" "$work/backends"
TESSERA_BACKEND_PATH=$work/backends bench 0 ops --device template --op add,softmax --shapes 2x16 --repeat 1 \
  --no-roofline --json
line 1
text op softmax
text supported false
line 2
text op add
text supported true
TESSERA_BACKEND_PATH=$work/backends bench 0 ops --device template --op softmax --shapes 2x16 --repeat 1 --no-roofline
stdout_has 'not supported'
# Nor does this one tell what memory it holds.
TESSERA_BACKEND_PATH=$work/backends bench 0 ops --device template --op add --shapes 2x16 --dry --json
line 1
text scratch_bytes null

# script CODE NAME ARGUMENT...: a script of tools/ must end with CODE.
script()
{
  n_checks=$((n_checks + 1))
  expected=$1
  shift
  code=0
  last="tools/$*"
  name=$1
  shift
  "$SOURCE_ROOT/tools/$name" "$@" >"$out" 2>"$err" || code=$?
  [ $code = "$expected" ] || failure "$last: exit code $code, expected $expected"
  check "$last: a trace" sh -c '! grep -q Traceback "$1"' - "$err"
}

# Targets: 1 is a missed one, 2 one that could not be measured.
fake=$work/fake-tessera
reply()
{
  printf '#!/bin/sh\necho '"'%s'"'\n' "$1" >"$fake"
  chmod +x "$fake"
}
if [ -x /usr/bin/python3 ]; then
  reply '{"supported": true, "scratch_bytes": 1000}'
  script 0 bench-targets --tessera "$fake" --part memory
  stdout_has ' met'
  reply '{"supported": true, "scratch_bytes": 1000000000}'
  script 1 bench-targets --tessera "$fake" --part memory
  reply '{"supported": true, "scratch_bytes": null}'
  script 2 bench-targets --tessera "$fake" --part memory
  stdout_has 'not known'
  reply '{"supported": false}'
  script 2 bench-targets --tessera "$fake" --part memory
  stderr_has 'lacks attention'
  reply 'no JSON'
  script 2 bench-targets --tessera "$fake" --part memory
  script 2 bench-targets --tessera "$fake" --part size --plugin "$work/none"
  stderr_has "$work/none"
  script 2 bench-targets --tessera "$work/none"
  # Nothing that was asked for is left out silently.
  script 2 bench-torch --train --precision f16
  stderr_has 'f32, not in f16'
  script 2 bench-torch --ops -- --workers 1
  stderr_has '--ops passes no options to tessera: --workers 1'
  script 2 bench-torch --decode -- --workers 1
  script 2 bench-torch -- --workers 1
  stderr_has 'options for tessera need --no-demo or --train: --workers 1'
  script 2 bench-torch --ops --train
fi

# Two files of results.
bench 2 compare "$work/old"
bench 2 compare "$work/old" "$work/old" "$work/old"
bench 2 compare --fail-below x "$work/old" "$work/old"
bench 3 compare "$work/none" "$work/old"
stderr_has "$work/none"
bench 3 compare "$work/old" /dev/null
stderr_has 'no line'
printf '{"op": "add"\n' >"$work/broken"
bench 3 compare "$work/old" "$work/broken"
stderr_has "$work/broken, line 1"
printf '[1]\n' >"$work/broken"
bench 3 compare "$work/broken" "$work/old"
stderr_has 'not a JSON object'
printf '{"op": "sleep", "device": "cpu:0", "each_us": {"median": 2, "min": 1, "max": 3}}\n' >"$work/other"
bench 3 compare "$work/old" "$work/other"
stderr_has 'nothing in common'
bench 0 compare "$work/old" "$work/old" --fail-below 1
stdout_has ' 0 faster and 0 slower'

# one SHAPE MEDIAN MIN MAX TOKENS
one()
{
  printf '{"op": "add", "shape": "%s", "device": "cpu:0", "threads": 2, "gflops": 1.0, ' "$1"
  printf '"each_us": {"median": %s, "min": %s, "max": %s}, ' "$2" "$3" "$4"
  printf '"tokens_per_second": {"median": %s, "min": %s, "max": %s}}\n' "$5" "$5" "$5"
}
{
  one 2x16 10 9 11 100
  one 4x16 10 9 11 100
  one 8x16 10 9 11 100
  one 8x16 10 9 11 100
} >"$work/before"
{
  one 8x16 10 9 11 100
  one 4x16 20 18 22 200
  one 2x16 9 8 10 100
  one 9x16 9 8 10 100
} >"$work/after"
bench 0 compare "$work/before" "$work/after" --json
check "$last: not 4 lines with 2 numbers" test "$(wc -l <"$out")" = 8
line 1
text of 'add 2x16 cpu:0 threads=2'
text number each_us
text ratio 1.11111
text beyond_noise false
line 2
text number tokens_per_second
text ratio 1.0
line 3
text of 'add 4x16 cpu:0 threads=2'
text old 10.0
text new 20.0
text ratio 0.5
text beyond_noise true
line 4
text ratio 2.0
text beyond_noise true
line 7
text of 'add 8x16 cpu:0 threads=2'
text new null
text missing true
text fails false
bench 0 compare "$work/before" "$work/after"
stdout_has 'slower'
stdout_has '6 numbers, 1 faster and 1 slower beyond noise, 2 missing'
stdout_has "only in $work/before: 1, only in $work/after: 1"
bench 0 compare "$work/before" "$work/after" --changed --json
check "$last: not 2 lines and 2 missing" test "$(wc -l <"$out")" = 4
bench 1 compare "$work/before" "$work/after" --fail-below 0.5
stderr_has "2 numbers of $work/before are missing in $work/after"
bench 0 compare "$work/after" "$work/after" --fail-below 0.5
head -n 3 "$work/before" >"$work/fewer"
bench 0 compare "$work/fewer" "$work/after" --fail-below 0.5
bench 1 compare "$work/before" "$work/after" --fail-below 0.51
stderr_has '1 of 6 numbers'
bench 1 compare "$work/before" "$work/after" --fail-below 0.9 --json
line 3
text fails true

# What is not measured any more is a change for the worse: as a number, in a line that is not supported, and as a line.
each='"each_us": {"median": 2, "min": 1, "max": 3}'
printf '{"op": "add", %s, "each_device_us": {"median": 1, "min": 1, "max": 1}}\n' "$each" >"$work/both"
printf '{"op": "add", %s, "each_device_us": null}\n' "$each" >"$work/one"
printf '{"op": "add", "supported": false}\n' >"$work/lacks"
bench 0 compare "$work/both" "$work/one"
stdout_has ' 1 missing'
bench 1 compare "$work/both" "$work/one" --fail-below 0.5
bench 0 compare "$work/one" "$work/both" --fail-below 0.5
bench 0 compare "$work/both" "$work/lacks"
stdout_has '0 numbers, 0 faster and 0 slower beyond noise, 2 missing'
bench 1 compare "$work/both" "$work/lacks" --fail-below 0.5
stderr_has '2 numbers'

# Training steps: a row tells what was trained, and another model, precision or batch is another row.
small='--d-model 8 --heads 2 --d-ff 8 --layers 1 --vocabulary 16 --source 3 --target 2 --dropout 0.25 --warm 1
  --repeat 1'
# shellcheck disable=SC2086
bench 0 train --device reference $small --batch 2 --json
cp "$out" "$work/old"
line 1
text what train
text model random
text precision f32
text threads 0
text batch 2
text source 3
text target 2
text d_model 8
text heads 2
text d_ff 8
text encoder_layers 1
text decoder_layers 1
text vocabulary 16
text dropout 0.25
text recompute false
number step_ms.median
bench 0 compare "$work/old" "$work/old"
stdout_has 'batch=2'
stdout_has 'dropout=0.25'
# shellcheck disable=SC2086
for other in '--precision f16' '--batch 3' '--d-ff 16' '--dropout 0' --recompute; do
  bench 0 train --device reference $small --batch 2 $other --json
  cp "$out" "$work/other"
  bench 3 compare "$work/old" "$work/other"
  stderr_has 'nothing in common'
done
bench 0 --model "$model" --device reference --source 3 --target 2 --repeat 1 --json
line 1
text model "$model"
bench 0 compare --help
stdout_has 'Usage: tessera bench compare'

# From the start of the process to the first token.
head -n 2 "$model/sample.en" >"$work/two.en"
bench 2 start "$work/two.en"
bench 2 start --model "$model"
bench 3 start --model "$model" "$work/none"
stderr_has "$work/none"
bench 3 start --model "$model" --device reference /dev/null
bench 3 start --model "$work/none" --device reference --repeat 1 "$work/two.en"
bench 4 start --model "$model" --device no-such-device "$work/two.en"
mkdir "$work/temporary"
before=${TMPDIR:-/tmp}
export TMPDIR="$work/temporary"
bench 0 start --model "$model" --device reference --precision int8 --repeat 2 --json "$work/two.en"
check "$last: something was left in TMPDIR" rmdir "$work/temporary"
export TMPDIR="$before"
stderr_is_empty
check "$last: not 2 lines" test "$(wc -l <"$out")" = 2
line 1
text what start
text cache cold
text model "$model"
text precision int8
text device reference:0
number first_token_ms.median
line 2
text cache warm
number first_token_ms.max
bench 0 start --model "$model" --device reference --repeat 1 "$work/two.en"
stdout_has 'first token ms'
bench 0 start --help
stdout_has 'Usage: tessera bench start'

# ---- load: many threads ----
bench 2 load --device reference "$work/two.en"
bench 2 load --model "$model" --load some "$work/two.en"
bench 2 load --model "$model" --rate 0 "$work/two.en"
bench 3 load --model "$model" --device reference /dev/null
bench 3 load --model "$work/none" --device reference "$work/two.en"
bench 4 load --model "$model" --device no-such-device "$work/two.en"
bench 2 load --model "$model" --device reference --beam 0 "$work/two.en"
cat "$work/two.en" "$work/two.en" "$work/two.en" >"$work/six.en"
bench 0 load --model "$model" --device cpu --beam 1 --threads 3 --batch 2 --repeat 2 --json "$work/six.en"
stderr_is_empty
check "$last: not 5 lines" test "$(wc -l <"$out")" = 5
line 1
text what load
text load file
text model "$model"
text device cpu:0
number tokens_per_second.median
number rows_per_step
line 2
text load lone
number latency_99_seconds.max
line 3
text load closed
number texts_per_second.min
line 4
text load static
line 5
text load rate
number asked_per_second
cp "$out" "$work/load.json"
bench 0 compare "$work/load.json" "$work/load.json"
stdout_has 'latency_95_seconds'
# A batch that nobody joins still has the texts that waited while the one before it ran.
bench 0 load --model "$model" --device cpu --beam 1 --load static --workers 1 --threads 6 --batch 4 --repeat 1 --json \
  "$work/six.en"
line 1
number rows_per_step
check "$last: texts of static batches are searched alone" awk '{ exit !($1 > 1) }' "$work/value"
bench 0 load --model "$model" --device reference --closed --texts 3 --threads 2 --repeat 1 "$work/six.en"
stdout_has '3 texts, 2 threads'
stdout_has 'closed'
check "$last: tells of what was not asked for" test "$(grep -c static "$out")" = 0
bench 0 load --model "$model" --device reference --load rate --rate 1000 --threads 2 --repeat 1 "$work/two.en"
stdout_has 'rate 1000'
check "$last: tells of what was not asked for" test "$(grep -c closed "$out")" = 0

finish
