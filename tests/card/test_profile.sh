#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The program on one of the imitated cards.
#   test_profile.sh PROFILE NUMBER  some operators with the largest cases of each kernel, others with each commit and of
#                                   each card; a recorded model with f16 weights; a training, against the CPU's
#   test_profile.sh PROFILE all     a share of all operators, and more models: in the suite `demand`
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"
profile=$1
part=$2
program=$TESSERA
unset TESSERA_DEVICE TESSERA_STAGING TESSERA_MAX_BINDING TESSERA_MAX_GROUPS TESSERA_VULKAN_KERNELS
unset TESSERA_VULKAN_VARIANT CARD_FAULT CARD_STATISTICS
export TESSERA_BACKEND_PATH="$BUILD_ROOT/backends/cpu:$BUILD_ROOT/backends/reference:$BUILD_ROOT/backends/vulkan"

# What follows runs the program on the card.
cat >"$work/on_card" <<SCRIPT
#!/bin/sh
exec "$SOURCE_ROOT/tests/card/with" "$profile" "$program" "\$@"
SCRIPT
chmod +x "$work/on_card"
TESSERA=$work/on_card
"$TESSERA" devices --names >"$out" 2>"$err" || true
if ! grep -q '^vulkan:0$' "$out"; then
  echo 'skipped: there is no Vulkan device'
  exit 77
fi

# started, then told: the seconds that a part took.
before=$(date +%s)
took()
{
  now=$(date +%s)
  printf '%s: %d s\n' "$1" $((now - before))
  before=$now
}

name=$(json name "$SOURCE_ROOT/tests/card/profiles/$profile.json")
run 0 devices
stdout_has "$name"
check "auto does not take $name" grep -q '^vulkan:0 .*(auto)' "$out"

golden()
{
  run 0 golden "$SOURCE_ROOT/tests/data/goldens/models/$1" --device vulkan:0
  stdout_has 'all equal'
  took "golden $1"
}

if [ "$part" = all ]; then
  run 0 check --mode coverage --devices vulkan:0 --share 768 --part 3
  tail -n 1 "$out"
  took 'all operators'
  for model_name in nn_relative_prenorm marian bart m2m_100 pegasus t5_v1_1_bf16; do
    golden $model_name
  done
else
  commit=$(git -C "$SOURCE_ROOT" rev-list --count HEAD 2>/dev/null) || commit=0
  # shellcheck disable=SC2086 # numbered by its words
  set -- 'mat*' '[s-t]*' 'c*' '[d-g]*' 're*' 'attention' 'layernorm*'
  shift $(((part + commit) % $#))
  run 0 check --devices vulkan:0 --share 1000000 --ops "$1"
  echo "$1: $(tail -n 1 "$out")"
  took 'operators'
  golden marian_f16
fi

# With resizable BAR the host sees all of a card's memory (the last type): small buffers lie there, large ones where the
# device alone sees them, and the device clears those.
if [ "$profile" = rtx ]; then
  CARD_STATISTICS=$work/statistics
  export CARD_STATISTICS
  run 0 translate --model "$model" --device vulkan:0 --max-length 3 "$model/sample.en"
  unset CARD_STATISTICS
  check "$last: a large buffer that the host sees" test "$(json types.4.largest "$work/statistics")" -le 4194304
  check "$last: no buffer that the device alone sees" test "$(json types.1.bytes "$work/statistics")" -gt 4000000
  check "$last: cleared by the host" test "$(json fill_bytes "$work/statistics")" -gt 4000000
  took 'memory'
  # Of a large card's decoding step, 32 rows are as many kernels as one (tests/model/tools.sh).
  run 0 program "$SOURCE_ROOT/tests/data/marian-en-fr" --kind greedy --batch 32 --device vulkan:0 --statistics
  stdout_has '33 dispatches in 29 stages'
  took 'counts'
fi

# A training: the same losses as on the CPU, as far as they are printed. A GPU's kernels take a driver on the CPU three
# times as long to compile.
[ "$part" = all ] || export TESSERA_VULKAN_KERNELS=cpu
for device in vulkan:0 cpu:0; do
  run 0 train --task reverse --vocab-size 8 --max-length 4 --d-model 16 --d-ff 32 --heads 2 --encoder-layers 1 \
    --decoder-layers 1 --batch-tokens 64 --log-every 2 --validate-every 6 --bleu-sentences 0 --warmup 5 --steps 6 \
    --device "$device" --json --out "$work/model-$device"
  tail -n 1 "$out" >"$work/json"
  json loss "$work/json" | cut -c 1-6 >"$work/loss-$device"
done
took 'training'
check "another loss: $(cat "$work/loss-vulkan:0"), the CPU's is $(cat "$work/loss-cpu:0")" \
  cmp -s "$work/loss-vulkan:0" "$work/loss-cpu:0"

finish
