#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tessera plan: predictions from descriptions of devices, and what is said of descriptions that are wrong.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"

run 2 plan
stderr_has '--device-json is needed'
run 2 plan --device-json h100
stderr_has "one model's folder is needed"
run 2 plan "$model" --measure cpu
stderr_has '--measure takes no model'
run 2 plan "$model" --device-json h100 --product 4x4x4
stderr_has '--product takes no model'
for product in 4 4x4 4x4x4x4 0x4x4 4x4x-1 4x4x4z 4x4x9999999 x 4x+4x4; do
  run 2 plan --product "$product" --device-json h100
  stderr_has '--product'
done
run 3 plan "$model" --device-json no-such-card
stderr_has 'no-such-card: there is no such file'
run 3 plan "$model" --device-json "$work/none.json"
stderr_has 'none.json'
run 3 plan "$work/none" --device-json h100

# A device of the cpu backend needs figures alone.
write()
{
  cat >"$work/device.json" <<END
{
  "name": "a device", "backend": "cpu", "type": "cpu",
  "figures": {
    "memory_gb_per_second": ${memory-10}, "l2_gb_per_second": 50, "l2_mib": 8,
    "f32_gop_per_second": { "value": 50, "source": "a guess", "estimate": true },
    "stage_microseconds": 1, "submit_microseconds": ${submit-0}, "processors": ${processors-2}${more-}
  }${rest-}
}
END
}

write
run 0 plan "$model" --device-json "$work/device.json" --batch 1
stderr_is_empty
for kind in encode decode greedy beam score train; do
  check "$last: no line for $kind" grep -q "^$kind: .* us on a device: [0-9]* kernels in [0-9]* stages" "$out"
done
check "$last: no line of a program" grep -q '^ *[0-9.]*  operations  .* matmul(' "$out"
run 0 plan "$model" --device-json "$work/device.json" --statistics --kind greedy
check "$last: more than two lines" test "$(wc -l <"$out")" = 2
stdout_has 'bound by memory'

run 0 plan "$model" --device-json "$work/device.json" --kind encode --kind train --json
cp "$out" "$work/plan.json"
check 'json: not of the device' test "$(json device "$work/plan.json")" = 'a device'
check 'json: not encode first' test "$(json programs.0.kind "$work/plan.json")" = encode
check 'json: not train second' test "$(json programs.1.kind "$work/plan.json")" = train
for key in us kernels stages weight_bytes other_bytes flops bound_us.operations lines.0.us; do
  check "json: $key is not above 0" awk "BEGIN { exit !($(json programs.0.$key "$work/plan.json") > 0) }"
done

# What it takes in all is the sum of its lines, and the submit.
sum=$(grep '"us":' "$work/plan.json" | tr -d ' ,' | cut -d: -f2 | awk '{ s += $1 } END { printf "%.6f", s }')
encode=$(json programs.0.us "$work/plan.json")
train=$(json programs.1.us "$work/plan.json")
check "json: lines and programs are $sum us of twice $encode + $train" \
  awk "BEGIN { exit !($sum > 1.9998 * ($encode + $train) && $sum < 2.0002 * ($encode + $train)) }"

# 2 * 1000^3 operations at 50 Gop/s, 1 us of a stage and 7 of a submit.
submit=7 write
run 0 plan --product 1000x1000x1000 --device-json "$work/device.json" --statistics
stdout_has 'product: 4.001e+04 us on a device: 1 kernels in 1 stages'
run 0 plan --product 1000x1000x1000 --precision int8 --device-json "$work/device.json"
stdout_has 'scales: scales[1000]'
run 0 plan "$model" --device-json "$work/device.json" --kind encode --run cpu --statistics
stdout_has 'on cpu: '
run 0 plan "$model" --device-json "$work/device.json" --kind train --run cpu --statistics --recompute --dropout 0
stdout_has 'were predicted'

# Many machines. 1,000 sentences in 10 shards of 4 batches: 3 rounds on 4 machines.
submit=0 write
run 2 plan "$model" --device-json "$work/device.json" --sentences 1 --tokens 1
stderr_has 'take one of them'
run 2 plan "$model" --device-json "$work/device.json" --machines 2
stderr_has '--machines needs --sentences'
run 2 plan --product 4x4x4 --device-json "$work/device.json" --tokens 1
stderr_has '--product takes no model, no --sentences'
run 2 plan --measure cpu --sentences 1
stderr_has '--sentences and --tokens'
for option in '--sentences 0.5' '--tokens -1' '--machines 0' '--machines 1,,2' '--network-gb-per-second 0' \
  '--price -1'; do
  # shellcheck disable=SC2086
  run 2 plan "$model" --device-json "$work/device.json" $option
  stderr_has "${option%% *}"
done
# near VALUE EXPECTED WHAT
near()
{
  check "$last: $3 is $1, expected $2" awk "BEGIN { d = ($1) - ($2); exit !(d * d <= 1e-10 * ($2) * ($2)) }"
}
run 0 plan "$model" --device-json "$work/device.json" --kind greedy --kind encode --batch 32 --json
cp "$out" "$work/plan.json"
batch="(1e-6 * ($(json programs.0.us "$work/plan.json") + 9 * $(json programs.1.us "$work/plan.json")))"
run 0 plan "$model" --device-json "$work/device.json" --sentences 1000 --shards 10 --batch 32 --machines 1,4,1000 \
  --start-seconds 3 --price 2 --json
cp "$out" "$work/plan.json"
near "$(json machines.0.seconds "$work/plan.json")" "3 + 40 * $batch" 'the time of one machine'
near "$(json machines.1.seconds "$work/plan.json")" "3 + 12 * $batch" 'the time of four'
near "$(json machines.2.seconds "$work/plan.json")" "3 + 4 * $batch" 'the time of too many'
near "$(json machines.1.price "$work/plan.json")" "(3 + 12 * $batch) / 3600 * 4 * 2" 'the price of four'
check 'json: no memory' awk "BEGIN { exit !($(json bytes "$work/plan.json") > 1e5) }"
run 0 plan "$model" --device-json "$work/device.json" --sentences 1e6 --kind beam --devices-per-machine 2 --price 1
stdout_has '1000000 sentences in 100 shards, batches of 2, on a device'
stdout_has 'the encoder takes'
stdout_has ', beam '
stdout_has 'machines  processes'
# The last cache holds what a process needs, alone, and not its share of 64.
memory=0.1 write
run 0 plan "$model" --device-json "$work/device.json" --sentences 64 --shards 1 --batch 64 --devices-per-machine 64 \
  --ranks-per-machine 1 --json
alone=$(json machines.0.seconds "$out")
run 0 plan "$model" --device-json "$work/device.json" --sentences 4096 --shards 64 --batch 64 --devices-per-machine 64 \
  --json
check 'json: processes side by side are as fast as one' \
  awk "BEGIN { exit !($(json machines.0.seconds "$out") > 2 * $alone) }"
write

# A training on one rank takes what its program takes; on two machines, also what the gradients take.
run 0 plan "$model" --device-json "$work/device.json" --kind train --json
cp "$out" "$work/plan.json"
step="(1e-6 * $(json programs.0.us "$work/plan.json"))"
run 0 plan "$model" --device-json "$work/device.json" --tokens 18000 --machines 1,2 --network-gb-per-second 1e-3 \
  --network-latency-us 1e5 --host-gb-per-second 1e9 --json
cp "$out" "$work/plan.json"
near "$(json machines.0.seconds "$work/plan.json")" "1000 * $step" 'the time of one rank'
near "$(json machines.0.efficiency "$work/plan.json")" 1 'the efficiency of one rank'
check 'json: not 500 updates' awk "BEGIN { exit !($(json machines.1.updates "$work/plan.json") == 500) }"
# 4 bytes at a megabyte a second; a message of each of two exchanges, and two of the ranks' losses
near "$(json machines.1.network_us "$work/plan.json")" "4 * $(json parameters "$work/plan.json") + 4e5" 'the network'
# What travels this long goes on from the first bucket, somewhere in the backward pass, to the end of the batch.
part() { json "machines.1.$1_us" "$work/plan.json"; }
check 'json: too much is hidden, or too little' \
  awk "BEGIN { exit !($(part hidden) > 0.2 * $(part compute) && $(part hidden) < 0.8 * $(part compute)) }"
near "$(part update)" "$(part compute) + $(part transfer) + $(part host) + $(part network) + $(part optimizer) - \
$(part hidden)" 'the sum of its parts'
run 0 plan "$model" --device-json "$work/device.json" --tokens 18000 --gradient-precision bf16 --json
check 'json: one rank rounds its gradients in no time' awk "BEGIN { exit !($(json machines.0.host_us "$out") > 0 &&
  $(json machines.0.transfer_us "$out") > 0 && $(json machines.0.network_us "$out") == 0) }"
run 0 plan "$model" --device-json "$work/device.json" --tokens 1e12 --machines 1,1000 --devices-per-machine 8 \
  --gradient-precision bf16 --shard-optimizer --accumulate 16000 --price 30
stdout_has '1e+12 tokens in batches of 2 x 9, '
check "$last: no row of 8,000 ranks" grep -q '^ *1000 *8000 *16000 ' "$out"
run 0 plan "$model" --device-json "$work/device.json" --tokens 1e4 --run cpu --ranks-per-machine 2
stdout_has 'efficiency'

# Descriptions that are wrong: the file and the key are named.
wrong()
{
  run 3 plan "$model" --device-json "$work/device.json"
  stderr_has 'device.json'
  stderr_has "$1"
  stdout_is_empty
}
for figure in -1 0 1e300 '"fast"' null true '[1]' '{}' '{ "value": -1 }' '{ "value": 1, "sauce": "x" }' \
  '{ "value": 1, "source": 1 }' '{ "value": 1, "estimate": 1 }'; do
  memory=$figure write
  wrong '"memory_gb_per_second"'
done
for figure in -1 1e10 '"fast"'; do
  submit=$figure write
  wrong '"submit_microseconds"'
done
for figure in 0 1.5 1e9 -1; do
  processors=$figure write
  wrong '"processors"'
done
more=', "speed": 1' write
wrong '"speed"'
rest=', "colour": "red"' write
wrong '"colour"'
rest=', "capabilities": 1' write
wrong '"capabilities"'
rest=', "capabilities": { "subgroup_size": 32 }' write
wrong '"max_binding_size" is missing'
rest=', "capabilities": { "wings": 2 }' write
wrong '"wings"'
rest=', "capabilities": { "subgroup_sizes": [32] }' write
wrong '"subgroup_sizes"'
rest=', "capabilities": { "subgroup_arithmetic": 1 }' write
wrong '"subgroup_arithmetic"'
rest=', "capabilities": { "cooperative_matrices": [{ "type": "f64", "m": 1, "n": 1, "k": 1 }] }' write
wrong '"cooperative_matrices"'
for key in name backend type figures l2_mib f32_gop_per_second stage_microseconds; do
  write
  sed "s/\"$key\": *{[^}]*},*//; s/\"$key\": *[^,{]*,//" "$work/device.json" >"$work/less.json"
  if [ "$key" = figures ]; then
    echo '{ "name": "x", "backend": "cpu", "type": "cpu" }' >"$work/less.json"
  fi
  run 3 plan "$model" --device-json "$work/less.json"
  stderr_has "less.json: the key \"$key\" is missing"
done
write
sed 's/"cpu",$/"toaster",/' "$work/device.json" >"$work/toaster.json"
run 3 plan "$model" --device-json "$work/toaster.json"
stderr_has '"type"'
sed 's/"backend": "cpu"/"backend": "none"/' "$work/device.json" >"$work/backend.json"
run 4 plan "$model" --device-json "$work/backend.json"
stderr_has "there is no backend 'none'"
sed 's/"backend": "cpu"/"backend": "vulkan"/' "$work/device.json" >"$work/backend.json"
run 3 plan "$model" --device-json "$work/backend.json"
stderr_has '"capabilities" is missing'
printf '{ "name": "x",\n' >"$work/device.json"
wrong 'line '
printf '{ "name": "x", "name": "y" }' >"$work/device.json"
wrong 'duplicate'
printf '[]' >"$work/device.json"
wrong 'an object is expected'
printf '' >"$work/device.json"
wrong 'device.json'

# The descriptions that come with the program: each is whole, and each figure has a source.
for path in "$SOURCE_ROOT"/tools/tessera/plan/devices/*.json; do
  name=${path##*/}
  name=${name%.json}
  values=$(grep -c '"value":' "$path")
  check "$name: a figure without a source" test "$(grep -c '^      "source": ".' "$path")" = "$values"
  if "$TESSERA" devices --names | grep -q '^vulkan:'; then
    for card in "$path" "$name"; do
      run 0 plan "$model" --device-json "$card" --statistics --precision f16
      stdout_has 'greedy: '
      stdout_has 'train: '
    done
  else
    run 4 plan "$model" --device-json "$name"
    stderr_has 'vulkan'
  fi
done
finish
