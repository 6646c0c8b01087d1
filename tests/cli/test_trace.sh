#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tessera trace: statistics of what flows through a model, on one device and on two.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"

sentence='The museum is worth visiting.'
run 0 trace "$model" "$sentence" --target 'Le chat dort.' --device reference --json
stderr_is_empty
cp "$out" "$work/one.json"
check 'json: another target' test "$(json target "$work/one.json")" = 'Le chat dort.'
check 'json: a difference without a second device' test "$(json largest_difference "$work/one.json")" = null
check 'json: not the embeddings first' test "$(json tensors.0.name "$work/one.json")" = encoder.embedding
check 'json: not 16 tensors of the encoder and 22 of the decoder' json tensors.37.name "$work/one.json" >"$work/name"
check 'json: the last is not the last layer' grep -qx decoder.layers.2 "$work/name"

# A norm's result, whose gain and bias are what they are, is steadier than the sum before it.
number()
{
  json "tensors.$1.devices.0.$2" "$work/one.json"
}
check 'json: a standard deviation is no number above 0' \
  awk "BEGIN { exit !($(number 3 deviation) > 0 && $(number 3 largest) >= $(number 3 deviation)) }"
check 'json: a mean is beyond the largest magnitude' \
  awk "BEGIN { m = $(number 3 mean); exit !((m < 0 ? -m : m) <= $(number 3 largest)) }"

# Two devices read and write the same, and agree.
run 0 trace "$model" "$sentence" --devices reference,cpu
stdout_has "$sentence -> Le mus"
stdout_has 'on reference:0 and cpu:0'
stdout_has 'decoder.layers.0.cross_attention_sum'
stdout_has 'relative to the largest magnitude'
run 0 trace "$model" "$sentence" --target 'Le chat dort.' --devices cpu,reference --json
check 'json: two devices do not differ at all, or did not pass' test "$(json passed "$out")" = true
check 'json: statistics of one device only' json tensors.5.devices.1.mean "$out" >"$work/value"
run 1 trace "$model" "$sentence" --target 'Le chat dort.' --devices cpu,reference --tolerance 0
stdout_has 'DIFFERS'

run 2 trace "$model" "$sentence" --devices cpu
stderr_has 'two devices are compared, not 1'
run 2 trace "$model"
stderr_has 'one sentence'
run 3 trace "$model" '' --device cpu
stderr_has 'the sentence is empty'
finish
