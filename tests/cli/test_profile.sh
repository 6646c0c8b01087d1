#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tessera profile: the parts add up to the whole, every part and operator is there, and counts are those of the search.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"

head -n 3 "$SOURCE_ROOT/tools/demo-model/sample.en" >"$work/three.en"
run 0 profile "$model" "$work/three.en" --device cpu --json
stderr_is_empty
cp "$out" "$work/profile.json"
check 'json: not three sentences' test "$(json sentences "$work/profile.json")" = 3
for key in target_tokens tokens_per_second seconds load_seconds host_peak_bytes device_peak_bytes programs_run \
  labels.0.seconds operators.0.gflops operators.0.gbytes; do
  check "json: $key is not above 0" awk "BEGIN { exit !($(json $key "$work/profile.json") > 0) }"
done

# What is measured adds up, and what is not is called "other": no more than the clock can tell apart.
sum=$(json parts "$work/profile.json" | grep -o ': [0-9.e-]*' | awk '{ s += $2 } END { print s }')
seconds=$(json seconds "$work/profile.json")
check "json: the parts are $sum s of $seconds s" \
  awk "BEGIN { exit !($sum > 0.99 * $seconds && $sum < 1.03 * $seconds) }"
for part in embedding encoder 'decoder self-attention' cross-attention feed-forward logits search tokenization \
  'compiling programs'; do
  check "json: $part took nothing" awk "BEGIN { exit !($(json "parts.$part" "$work/profile.json") > 0) }"
done
check 'json: no label of a layer' grep -q -F '"label": "decoder.layers.1.feed_forward"' "$work/profile.json"

# The same for people, with greedy search.
run 0 profile "$model" "$work/three.en" --device reference --beam 1 --max-length 6
stdout_has 'three.en on reference:0: 3 sentences'
stdout_has 'cross-attention'
stdout_has 'GFLOP/s'
stdout_has 'tokens a second written; peak memory: host'
check 'text: no line for all' grep -q '^all  *[0-9.]*  100.0$' "$out"

run 0 profile "$model" /dev/null --device cpu
run 2 profile "$model" "$work/three.en" --workers 2
stderr_has '--workers 2'
run 2 profile "$model"
stderr_has 'a file of sentences'
run 3 profile "$model" "$work/none"
stderr_has 'none'
finish
