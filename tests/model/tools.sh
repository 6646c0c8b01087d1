#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# tools.sh WRITE_LARGE_MODEL: `tessera info`, `program` and `compare` from outside.
set -eu
write_large_model=$1
model=$SOURCE_ROOT/tests/data/marian-en-fr
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail()
{
  echo "FAILED: $*"
  exit 1
}

# expect CODE COMMAND..: runs it, output in $work/out and $work/err.
expect()
{
  code=$1
  shift
  set +e
  "$@" >"$work/out" 2>"$work/err"
  found=$?
  set -e
  [ "$found" -eq "$code" ] || { cat "$work/out" "$work/err"; fail "$*: exit code $found, expected $code"; }
}

has()
{
  grep -q -- "$1" "$work/out" || { cat "$work/out"; fail "the output lacks '$1'"; }
}

# The paper's encoder, counted from config.json alone.
cat >"$work/config.json" <<'CONFIG'
{"model_type": "nn_transformer", "d_model": 512, "nhead": 8, "num_encoder_layers": 6, "num_decoder_layers": 0,
 "dim_feedforward": 2048, "src_vocab_size": 1000}
CONFIG
expect 0 "$TESSERA" info "$work"
has '^ *encoder\.layers  *18,914,304$'
has '^ *encoder\.layers\.5  *3,152,384$'
has '^ *encoder\.layers\.0\.feed_forward  *2,099,712$'
has 'not in the folder'
expect 0 "$TESSERA" info --all --json "$work"
has '"encoder.layers.5.feed_forward": 2099712'
expect 3 "$TESSERA" info "$work/nowhere"
expect 2 "$TESSERA" info
# What this build cannot read is a matter of the input, for every command.
mkdir "$work/unknown"
echo '{"model_type": "resnet"}' >"$work/unknown/config.json"
expect 3 "$TESSERA" info "$work/unknown"
expect 3 "$TESSERA" program "$work/unknown"
expect 3 "$TESSERA" compare "$work/unknown" --devices reference,reference
expect 3 "$TESSERA" golden "$work/unknown" --device reference

expect 0 "$TESSERA" program "$model"
has 'attention'
has 'saved'
expect 0 "$TESSERA" program "$model" --kind greedy --statistics
has '^greedy: '
expect 0 "$TESSERA" program "$model" --kind train --statistics
has '^train: '
grep -q '^encode' "$work/out" && fail "only the kinds that are named should be shown"
expect 0 "$TESSERA" program "$model" --kind train --kind train-gradients --recompute --batch 3 --precision f16
has 'feed_forward.again'
has 'feed_forward.gradient'
has '^train-gradients: '
has ' adam('
has 'f16 .* = copy('
expect 2 "$TESSERA" program "$model" --kind train --profile reference
expect 2 "$TESSERA" program "$model" --kind trains
grep -q 'train-gradients' "$work/err" || fail "the message should name all kinds"
expect 0 "$TESSERA" program "$model" --kind encode --kind beam --json --profile reference
has '"nanoseconds"'
expect 0 "$TESSERA" program "$model" --kind decode --precision int8
has '^constant  *embedding.weight.scales f32 \[5001\]$'
has 'logits f32.*matmul(.*scales: embedding.weight.scales\[5001\])'
expect 0 "$TESSERA" program "$model" --kind encode --precision int8 --json --profile reference
# Keys and values in the type that generation keeps them in.
for precision in f16 bf16; do
  expect 0 "$TESSERA" program "$model" --kind greedy --precision $precision
  has "^state  *decoder.* $precision "
  has 'states 72 KiB'
  expect 0 "$TESSERA" program "$model" --kind greedy --precision $precision --profile reference
  has 'states 144 KiB'
done
expect 0 "$TESSERA" program "$model" --kind greedy --precision int8
has '^state  *decoder.* f32 '
# Clamped relative positions.
relative=$SOURCE_ROOT/tests/data/goldens/models/nn_relative_prenorm
expect 0 "$TESSERA" info "$relative"
has 'positions  *relative, clamped at 7 tokens, a bias in each layer'
has '^ *encoder\.layers\.0\.relative  *45$'
expect 0 "$TESSERA" info --json "$relative"
has '"positions": "relative, clamped"'
has '"relative_distance": 7'
expect 0 "$TESSERA" program "$relative"
has 'attention(.*relative: encoder.layers.0.relative.weight\[15, 3\].* clamped max_distance 7'
has 'attention(.*relative: decoder.layers.2.relative.weight\[15, 3\].* causal clamped max_distance 7'
expect 0 "$TESSERA" program "$relative" --kind train-gradients
has ' relative_gradient(.* clamped max_distance 7'
expect 0 "$TESSERA" compare "$relative" --devices reference,cpu --batch 3 --source 19 --target 17
has 'beam .* lines equal'
# A model of speech: windows of its own length, whatever is asked for; commands that have a text refuse it.
speech=$SOURCE_ROOT/tests/data/goldens/speech/models/whisper_tiny_random
expect 0 "$TESSERA" info "$speech"
has '^ *sound  *80 mels of each frame, windows of 300 frames (150 positions)$'
has '^ *encoder\.conv2  *12,352$'
expect 0 "$TESSERA" info --json "$speech"
has '"source_positions": 150'
expect 0 "$TESSERA" program "$speech" --source 9
has 'input  *features f32 \[2, 80, 300\]'
has 'conv1d(.*stride 2'
expect 0 "$TESSERA" convert "$speech" --precision int8 --out "$work/speech"
expect 0 "$TESSERA" compare "$speech" --devices reference,cpu
has 'encode .* lines equal'
has 'beam .* lines equal'
expect 0 "$TESSERA" compare "$work/speech" --devices reference,reference
expect 3 "$TESSERA" translate --model "$speech"
grep -q 'is a model of speech: it reads sound' "$work/err" || fail "the message should say what the model reads"
expect 3 "$TESSERA" convert "$speech" --precision int4 --out "$work/calibrated" --calibrate "$work/config.json"
grep -q 'is a model of speech' "$work/err" || fail "the message should say what the model reads"
expect 2 "$TESSERA" program "$model" --precision i8
expect 2 "$TESSERA" program "$model" --kind sideways
expect 2 "$TESSERA" program "$model" --source 100000
expect 4 "$TESSERA" program "$model" --profile nothing:7
# What a device is told, which the reference does not tell.
expect 4 "$TESSERA" program "$model" --device nothing:7
expect 2 "$TESSERA" program "$model" --device reference --profile reference
expect 2 "$TESSERA" program "$model" --kind train --device reference
"$TESSERA" program "$model" --device reference >"$work/out" 2>"$work/err" && fail "the reference should not tell"
grep -q 'does not tell what it hands to the device' "$work/err" || fail "the message should say why"
if "$TESSERA" devices --names | grep -q '^vulkan:0$'; then
  expect 0 "$TESSERA" program "$model" --kind greedy --device vulkan:0
  has '^ *1 .* search  *\|^ *1 '
  has 'on vulkan:0: [0-9]* dispatches in [0-9]* stages, [0-9]* barriers; 5\.0.* MB of weights'
  expect 0 "$TESSERA" program "$model" --kind greedy --device vulkan:0 --json
  has '"stages": '
  has '"weight_bytes": '
fi
# What a decoding step costs with the kernels that GPUs get: a number that rises is a step that is slower. Of the
# base-sized model each of the six layers has 8 dispatches in 8 stages, of one or two rows 6 in 6; with weights of i8
# 8 in 8 for any rows.
if "$TESSERA" devices | grep -q 'device  *llvmpipe'; then
  base=$work/base
  "$write_large_model" "$base" 10000 512 6
  for row in "$model 1 27 24 f16" "$model 8 33 29 f16" "$base 1 43 40 f16" "$base 8 55 52 f16" "$model 8 34 30 int8" \
    "$base 1 56 53 int8" "$base 8 56 53 int8"; do
    # shellcheck disable=SC2086 # a folder without spaces, three numbers, a word
    set -- $row
    expect 0 env TESSERA_VULKAN_KERNELS=gpu GALLIVM_PERF=nopt "$TESSERA" program "$1" --kind greedy --batch "$2" \
      --source 32 --target 64 --precision "$5" --device vulkan:0 --statistics
    has "on vulkan:0: $3 dispatches in $4 stages"
  done
fi

expect 0 "$TESSERA" compare "$model" --devices reference,reference
has 'beam .* lines equal'
expect 0 "$TESSERA" compare "$model" --devices reference,reference --precision int8
expect 2 "$TESSERA" compare "$model" --devices reference
if "$TESSERA" devices --names | grep -qx vulkan:0; then
  expect 0 "$TESSERA" compare "$model" --devices reference,vulkan:0 --batch 3 --source 17 --target 5 --seed 7
  expect 0 "$TESSERA" compare "$model" --devices reference,vulkan:0 --precision bf16 --json
  has '"equal": true'
  # No two implementations of a product round alike.
  expect 1 "$TESSERA" compare "$model" --devices reference,vulkan:0 --kind greedy --tolerance 0
  has 'operator  matmul'
  has 'from      decoder.layers.0.self_attention'
  has 'operands  a f32\[2, 192\], b f16'
fi
