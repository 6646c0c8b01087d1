#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tessera translate, from outside.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"

device=$("$TESSERA" devices --names | grep '^reference' | head -n 1)

# translate CODE ARGUMENT...: with the recorded model on the reference.
translate()
{
  wanted=$1
  shift
  run "$wanted" translate --model "$model" --device "$device" "$@"
}

head -n 3 "$model/sample.en" >"$work/three.en"
head -n 3 "$model/sample.fr" >"$work/three.fr"

# The search that the model asks for (beam 4), from a file; and from standard input, with and without its name.
translate 0 "$work/three.en"
check "$last: not the recorded translation" cmp -s "$out" "$work/three.fr"
stderr_is_empty
head -n 1 "$work/three.fr" >"$work/one.fr"
head -n 1 "$work/three.en" >"$work/one.en"
translate 0 <"$work/one.en"
check "$last: not the recorded translation" cmp -s "$out" "$work/one.fr"
translate 0 - <"$work/one.en"
check "$last: not the recorded translation" cmp -s "$out" "$work/one.fr"

# In whole numbers, too.
translate 0 --precision int8 "$work/three.en"
check "$last: not the recorded translation" cmp -s "$out" "$work/three.fr"

# Every backend agrees on all ten.
for other in $("$TESSERA" devices --names | grep -v '^reference'); do
  run 0 translate --model "$model" --device "$other" "$model/sample.en"
  check "$last: not the recorded translation" cmp -s "$out" "$model/sample.fr"
done

# Line ends: CR LF, none at the end; empty lines stay.
printf '\r\n%s\r\n\r\n%s' "$(sed -n 1p "$work/three.en")" "$(sed -n 2p "$work/three.en")" >"$work/lines.en"
printf '\n%s\n\n%s\n' "$(sed -n 1p "$work/three.fr")" "$(sed -n 2p "$work/three.fr")" >"$work/lines.fr"
translate 0 "$work/lines.en"
check 'line ends: not as expected' cmp -s "$out" "$work/lines.fr"
translate 0 /dev/null
stdout_is_empty

# Bytes that are no UTF-8, and a NUL, are no reason to stop.
printf 'caf\351 \000 is open.\n\n' >"$work/bytes.en"
translate 0 --beam 1 --max-length 8 "$work/bytes.en"
check 'bytes: not two lines' test "$(wc -l <"$out")" = 2
translate 0 --beam 1 --max-length 8 --json "$work/bytes.en"
head -n 1 "$out" >"$work/json"
check 'bytes: no JSON' json translation "$work/json" >"$work/value"

# Scores and JSON, one object a line.
translate 0 --scores "$work/one.en"
check 'scores: none' grep -q '^-[0-9]\.[0-9]*	' "$out"
cut -f 2- "$out" >"$work/text"
check 'scores: another translation' cmp -s "$work/text" "$work/one.fr"
translate 0 --json "$work/three.en"
for i in 1 2 3; do
  sed -n ${i}p "$out" >"$work/json"
  check "json $i: other line" test "$(json line "$work/json")" = $i
  check "json $i: other source" test "$(json source "$work/json")" = "$(sed -n ${i}p "$work/three.en")"
  check "json $i: other translation" test "$(json translation "$work/json")" = "$(sed -n ${i}p "$work/three.fr")"
  check "json $i: no score" json score "$work/json" >"$work/value"
  check "json $i: no ids" json ids.0 "$work/json" >"$work/value"
done

# Batches on several threads: the same, in the same order.
translate 0 --workers 1 "$work/three.en"
check "$last: not the recorded translation" cmp -s "$out" "$work/three.fr"
translate 0 --workers 3 --batch 1 --timings "$work/three.en"
check "$last: not the recorded translation" cmp -s "$out" "$work/three.fr"
stderr_has 'on 3 threads'
stderr_has 'summed over the threads'
translate 2 --workers 0 "$work/three.en"
stderr_has '--workers'

# Timings go to stderr.
translate 0 --beam 1 --timings "$work/one.en"
stderr_has 'sentences  1 '
check 'timings: not one line' test "$(wc -l <"$out")" = 1

# Several devices give the lines of one, in their order; commands that need one refuse them.
seq 50 | while read -r _; do cat "$model/sample.en"; done >"$work/many.en"
run 0 translate --model "$model" --device cpu --beam 1 "$work/many.en"
cp "$out" "$work/many.fr"
for devices in cpu,cpu cpu:0,reference,cpu:0; do
  run 0 translate --model "$model" --device $devices --beam 1 --timings "$work/many.en"
  check "$devices: other lines" cmp -s "$out" "$work/many.fr"
  stderr_has 'device     cpu:0'
done
stderr_has 'warning: reference:0 computes on the CPU, as a backend does that is made for it'
# What a device takes is whole batches: several devices need no more of them than one.
for devices in cpu cpu,cpu; do
  run 0 translate --model "$model" --device $devices --beam 1 --batch 2 --timings "$work/many.en"
  stderr_has 'in 250 runs'
done
run 2 translate --model "$model" --device cpu, "$work/one.en"
run 2 attention "$model" --device cpu,cpu 'Hello.'
stderr_has 'attention: --device: one device is needed, not 2'
run 2 trace "$model" --device cpu,cpu 'Hello.'
run 2 profile "$model" "$work/one.en" --device cpu,cpu
stderr_has 'profile: --device: one device is needed, not 2'

# A sentence beyond the model's positions is cut, parted or refused, and told with its line; the others are translated.
{
  cat "$work/one.en"
  awk 'BEGIN { for (i = 0; i < 40; i++) printf "The house is small. "; print "" }'
  cat "$work/one.en"
} >"$work/long.en"
for how in cut split error; do
  expected=0
  [ $how = error ] && expected=3
  run $expected translate --model "$model" --device cpu --beam 1 --max-source 50 --long-input $how "$work/long.en"
  check "long, $how: not three lines" test "$(wc -l <"$out")" = 3
  check "long, $how: another first line" test "$(sed -n 1p "$out")" = "$(cat "$work/one.fr")"
  check "long, $how: another last line" test "$(sed -n 3p "$out")" = "$(cat "$work/one.fr")"
  stderr_has 'long.en, line 2: 2'
  sed -n 2p "$out" | grep -o 'maison' | wc -l >"$work/$how.count"
done
stderr_has 'tokens; the model takes at most 50'
check 'long: something of what was refused' test "$(sed -n 2p "$out")" = ''
check 'long: parts hold no more than the beginning' \
  test "$(cat "$work/split.count")" -gt $((2 * $(cat "$work/cut.count")))
run 0 translate --model "$model" --device cpu --beam 1 --max-length 4 "$work/long.en"
stderr_is_empty
awk 'BEGIN { for (i = 0; i < 20000; i++) printf i % 9 == 8 ? "house. " : "house "; print "\nEnd." }' >"$work/longer.en"
run 0 translate --model "$model" --device cpu --beam 1 --max-length 4 --long-input split --json "$work/longer.en"
stderr_has 'more than 256 positions: split into '
check 'longer: not two lines' test "$(wc -l <"$out")" = 2
run 0 translate --model "$model" --device cpu --beam 1 --max-length 4 "$work/longer.en"
stderr_has 'cut to 256 positions'
translate 2 --long-input half "$work/long.en"
stderr_has "'half' is none of cut, split, error"
translate 2 --max-source 0 "$work/long.en"

# A byte order mark, blank lines of all kinds.
printf '\357\273\277%s\n \t\n\302\240\343\200\200\n\342\200\213\n%s' "$(cat "$work/one.en")" "$(cat "$work/one.en")" \
  >"$work/blank.en"
printf '%s\n\n\n\n%s\n' "$(cat "$work/one.fr")" "$(cat "$work/one.fr")" >"$work/blank.fr"
translate 0 "$work/blank.en"
check 'blank: not as expected' cmp -s "$out" "$work/blank.fr"
stderr_is_empty

# Somebody who stops reading ends the program without a word.
{
  code=0
  "$TESSERA" translate --model "$model" --device "$device" --beam 1 "$work/one.en" 2>"$err" || code=$?
  echo $code >"$work/code"
} | true
if [ "$(cat "$work/code")" = 3 ]; then # the signal is ignored here, as it is in some runners
  check 'closed stdout: no message' grep -q 'standard output' "$err"
else
  check 'closed stdout: not ended by SIGPIPE' test "$(cat "$work/code")" = 141
  check 'closed stdout: a message' test ! -s "$err"
fi

# What is missing or bad.
translate 3 "$work/no-such-file"
stderr_has "$work/no-such-file"
translate 3 "$work"
stderr_has "$work"
run 3 translate --model "$work/no-such-model" --device "$device" "$work/three.en"
stderr_has "$work/no-such-model"

# copy NAME: the recorded model without its file NAME, in $work/copy.
copy()
{
  rm -rf "$work/copy"
  mkdir "$work/copy"
  ln -s "$model"/*.json "$model"/*.spm "$model"/*.safetensors "$work/copy/"
  rm "$work/copy/$1"
}
for file in config.json model.safetensors source.spm target.spm vocab.json; do
  copy $file
  run 3 translate --model "$work/copy" --device "$device" "$work/three.en"
  stdout_is_empty
  stderr_has "${file%.*}"
  echo 'garbage' >"$work/copy/$file"
  run 3 translate --model "$work/copy" --device "$device" "$work/three.en"
  stdout_is_empty
  stderr_has "$file"
done
copy model.safetensors
head -c 100000 "$model/model.safetensors" >"$work/copy/model.safetensors"
run 3 translate --model "$work/copy" --device "$device" "$work/three.en"
stderr_has 'model.safetensors'

finish
