#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tessera score, from outside.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"

device=$("$TESSERA" devices --names | grep '^reference' | head -n 1)
head -n 3 "$model/sample.en" >"$work/three.en"
head -n 3 "$model/sample.fr" >"$work/three.fr"

# score CODE ARGUMENT...: with the demo model on the reference.
score()
{
  wanted=$1
  shift
  run "$wanted" score "$model" --device "$device" "$@"
}

# The model's own translations have the scores that its beam search gave them: the sums are divided by the tokens.
run 0 translate --model "$model" --device "$device" --scores "$work/three.en"
cut -f 1 "$out" | cut -c 1-7 >"$work/search"
score 0 --source "$work/three.en" --target "$work/three.fr"
cut -f 2 "$out" | cut -c 1-7 >"$work/scores"
check 'scores: not those of the search' cmp -s "$work/scores" "$work/search"
stderr_has '3 sentences, 34 tokens, perplexity 1.2'
cp "$out" "$work/plain"

# The same from one file of two columns; sums alone with a length penalty of 0.
paste "$work/three.en" "$work/three.fr" >"$work/three.tsv"
score 0 --source - --batch 1 <"$work/three.tsv"
check 'columns: other scores' cmp -s "$out" "$work/plain"
score 0 --source "$work/three.tsv" --length-penalty 0
check 'no penalty: the score is not the sum' test "$(cut -f 1 "$out")" = "$(cut -f 2 "$out")"

# Several devices score as one does, in the order of the lines.
for _ in 1 2 3 4 5 6 7 8; do paste "$model/sample.en" "$model/sample.fr"; done >"$work/many.tsv"
run 0 score "$model" --device cpu --source "$work/many.tsv"
awk '{ printf "%.3f\n", $1 }' "$out" >"$work/many.sums"
for devices in cpu,cpu "$device,$device" "$device,cpu,cpu"; do
  run 0 score "$model" --device "$devices" --source "$work/many.tsv"
  awk '{ printf "%.3f\n", $1 }' "$out" >"$work/sums"
  check "$devices: other scores" cmp -s "$work/sums" "$work/many.sums"
done
stderr_has 'it is used if that one fails'

# Every backend agrees.
for other in $("$TESSERA" devices --names | grep -v '^reference'); do
  run 0 score "$model" --device "$other" --source "$work/three.tsv"
  cut -f 2 "$out" | cut -c 1-7 >"$work/scores"
  check "$other: other scores" cmp -s "$work/scores" "$work/search"
done

# Each token.
score 0 --source "$work/three.tsv" --tokens
check 'tokens: 3 lines' test "$(wc -l <"$out")" = 3
stdout_has ' </s>=-0.'
score 0 --source "$work/three.tsv" --tokens --json
for i in 1 2 3; do
  sed -n ${i}p "$out" >"$work/json"
  check "json $i: other line" test "$(json line "$work/json")" = $i
  check "json $i: other score" test "$(json score "$work/json" | cut -c 1-7)" = "$(sed -n ${i}p "$work/search")"
  check "json $i: no token" json tokens.0 "$work/json" >"$work/value"
  check "json $i: no number" json log_probabilities.0 "$work/json" >"$work/value"
done
sed -n 4p "$out" >"$work/json"
check 'json: no perplexity' json perplexity "$work/json" >"$work/value"
check 'json: other sentences' test "$(json sentences "$work/json")" = 3

# An empty line on either side is scored as any other, and the rest follows.
printf '\t\nHe was late.\t\n\tIl.\n' >"$work/empty.tsv"
score 0 --source "$work/empty.tsv"
check 'empty lines: not three' test "$(wc -l <"$out")" = 3
score 0 --source /dev/null --target /dev/null
stdout_is_empty

# A long one is cut, and named.
awk 'BEGIN { printf "Yes.\t"; for (i = 0; i < 400; i++) printf "maison "; print ""; print "Yes.\tOui." }' \
  >"$work/long.tsv"
score 0 --source "$work/long.tsv"
stderr_has 'line 1'
stderr_has '256 positions'
check 'long: not two lines' test "$(wc -l <"$out")" = 2

# What marian-scorer gave.
case_folder=$SOURCE_ROOT/tests/data/goldens/models/marian_npz
for i in 0 1 2 3 4 5; do
  json source_text.$i "$case_folder/golden.json"
  json target_text.$i "$case_folder/golden.json" >>"$work/npz.target"
  json scorer_sum_logprob.$i "$case_folder/golden.json" >>"$work/npz.sums"
done >"$work/npz.source"
for other in $("$TESSERA" devices --names); do
  run 0 score "$case_folder" --device "$other" --source "$work/npz.source" --target "$work/npz.target"
  cut -f 1 "$out" | paste - "$work/npz.sums" >"$work/sums"
  check "marian-scorer, $other: other sums" \
    awk '{ d = $1 - $2; if (d > 1e-4 || d < -1e-4) bad = 1 } END { exit bad || NR != 6 }' "$work/sums"
done

# What is missing or bad.
score 2
stderr_has '--source is missing'
run 2 score --source "$work/three.tsv"
stderr_has 'the model is missing'
score 3 --source "$work/no-such-file"
stderr_has "$work/no-such-file"
score 3 --source "$work/three.en" --target "$model/sample.fr"
stderr_has 'three.en'

finish
