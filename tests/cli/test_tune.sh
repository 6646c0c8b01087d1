#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tessera tune: every class has its times, what is the fastest is kept where the next one finds it.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"

run 2 tune
stderr_has "one model's folder is needed"
run 2 tune "$model" --batch 0
run 2 tune "$model" --gain 91
run 3 tune "$work/none" --device reference
run 4 tune "$model" --device reference
stderr_has 'nothing to choose from'

# Of a backend whose times are known: one line in two that is a little faster in a variant makes its class no faster,
# though that variant's sum is the least; one in two that is much faster does. A class that several programs have is
# one.
real=${TESSERA_BACKEND_PATH-}
TESSERA_BACKEND_PATH=$BACKENDS:$FAKE_VARIANTS
export TESSERA_BACKEND_PATH
run 0 tune "$model" --device fake --batch 1,2 --beam 2 --length 4 --runs 1 --json
check 'classes are told twice' test "$(wc -l <"$out")" = 2
check 'a variant was held against lines that it cannot take' grep -q '"class":"products".*"kept":false' "$out"
check 'what is faster was not kept' grep -q '"class":"attentions".*"best":"fake.some","kept":true' "$out"
grep '"attentions"' "$out" >"$work/class.json"
by_rules=$(json by_rules "$work/class.json")
n=$((by_rules / 100)) # lines
check 'the lines are not told together' grep -q "\"fake.usual\":$by_rules,.*\"fake.all\":$((99 * n))}" "$out"
check 'what is remembered' test "$(cat "$err")" = 'save
remember attentions fake.some
save'
run 0 tune "$model" --device fake --batch 1,2 --beam 2 --length 4 --runs 1
stdout_has 'fake:0: 1 classes take another variant than the rules choose'
run 0 tune "$model" --device fake --batch 1 --beam 2 --length 4 --runs 1 --dry-run
stdout_has 'fake:0: 1 classes would take another variant'
check 'something was saved' test "$(grep -c save "$err")" = 0
run 0 tune "$model" --device fake --batch 1 --beam 2 --length 4 --runs 1 --gain 50
stdout_has 'fake:0: 0 classes take'
TESSERA_BACKEND_PATH=$real
[ -n "$real" ] || unset TESSERA_BACKEND_PATH

if "$TESSERA" devices --names | grep -q '^vulkan:0$'; then
  # Where nothing can be kept, nothing is measured.
  echo 'no folder' >"$work/file"
  XDG_CACHE_HOME=$work/file
  export XDG_CACHE_HOME
  started=$(date +%s)
  run 3 tune "$model" --device vulkan:0 --json
  stderr_has "$work/file/tessera/"
  stdout_is_empty
  check 'it was found out late' test $(($(date +%s) - started)) -lt 60
  XDG_CACHE_HOME=$work/cache
  GALLIVM_PERF=nopt # a CPU's driver compiles faster what runs but a few times
  export XDG_CACHE_HOME GALLIVM_PERF
  run 0 tune "$model" --device vulkan:0 --batch 1 --beam 2 --length 4 --runs 1 --gain 0 --precision f16 --json
  stderr_is_empty
  head -n 1 "$out" >"$work/first.json"
  check 'json: not a product' test "$(json operator "$work/first.json")" = matmul
  check 'json: one variant alone was timed' test "$(grep -o '"matmul\.[^"]*":' "$work/first.json" | wc -l)" -gt 1
  kept=$(find "$work/cache" -name '*.variants')
  check 'nothing was kept' test -n "$kept"
  check 'the table has no head' grep -q '^tessera variants 1$' "$kept"
  echo 'One more.' >"$work/one.en"
  run 0 translate --model "$model" --device vulkan:0 "$work/one.en"
  stderr_is_empty
  echo nonsense >"$kept"
  run 0 translate --model "$model" --device vulkan:0 "$work/one.en"
  stderr_has 'is ignored'
  # Keys and values of 16 bits are filled, too, and differ by no more than their roundings.
  for precision in f16 bf16; do
    run 0 bench --model "$model" --device vulkan:0 --what decode --precision $precision --repeat 1
    run 0 compare "$model" --devices vulkan:0,reference --precision $precision
  done
fi
finish
