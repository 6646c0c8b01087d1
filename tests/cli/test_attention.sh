#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tessera attention: numbers, pictures, and what a page consists of. test_attention_page.sh looks at the page in a
# browser.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"

sentence='The museum is worth visiting.'
cd "$work" || exit 1

run 0 attention "$model" "$sentence" --device cpu --json
stderr_is_empty
cp "$out" "$work/weights.json"
check 'json: another sentence' test "$(json source.text "$work/weights.json")" = "$sentence"
printf '%s\n' "$sentence" >"$work/one.en"
run 0 translate --model "$model" --device cpu "$work/one.en"
check 'json: another translation' test "$(json target.text "$work/weights.json")" = "$(cat "$out")"
check 'json: the decoder does not begin with its start token' test "$(json target.ids.0 "$work/weights.json")" = 5000
check 'json: what is given is not what is read next' \
  test "$(json target.next.0 "$work/weights.json")" = "$(json target.tokens.1 "$work/weights.json")"
check 'json: a query sees what comes after it' test "$(json decoder.2.5.0.1 "$work/weights.json")" = 0.0
check 'json: a first query sees more than itself' test "$(json decoder.2.5.0.0 "$work/weights.json")" = 1.0
for row in encoder.0.0.1 decoder.1.3.2 cross.2.5.3; do
  sum=$(json $row "$work/weights.json" | tr -d '[] ' | tr ',' '\n' | awk '{ s += $1 } END { printf "%.4f", s }')
  check "json: the sum of $row is $sum" test "$sum" = 1.0000
done

# A target that is given, and two devices that agree.
run 0 attention "$model" "$sentence" --target 'Le chat dort.' --device cpu --json
check 'target: not taken' test "$(json target.text "$out")" = 'Le chat dort.'
ours=$(json cross.1.2.3.0 "$out")
run 0 attention "$model" "$sentence" --target 'Le chat dort.' --device reference --json
check 'target: devices differ' sh -c 'awk "BEGIN { d = $1 - $2; exit !(d < 1e-5 && d > -1e-5) }"' - "$ours" \
  "$(json cross.1.2.3.0 "$out")"

# The page: no text in it can end an element, and it needs no other.
run 0 attention "$model" 'a </script><b onx="1"> & c' --device cpu --target "d'<!--" --out page.html
stdout_has 'page.html: '
check 'page: not one script and one text of data' test "$(grep -o '<script' page.html | wc -l)" = 2
check 'page: the sentence is not escaped' sh -c '! grep -q -F "<b onx" page.html'
check 'page: needs others' sh -c '! grep -q -i -e "://" -e "src=" -e "@import" page.html'
run 0 attention "$model" "$sentence" --device cpu --beam 1
check 'page: not where it is by default' test -s attention.html

# Pictures, where the build draws them.
if "$TESSERA" attention "$model" "$sentence" --device cpu --png cross.png >"$out" 2>"$err"; then
  last='tessera attention --png'
  stdout_has 'Cross attention, layer 2, average of 6 heads'
  magic=$(od -A n -t x1 -N 8 cross.png | tr -d ' ')
  check 'png: no PNG' test "$magic" = 89504e470d0a1a0a
  run 0 attention "$model" 'Жёлтый 語' --device cpu --png head.png --kind encoder --layer 0 --head 5 --json
  check 'png: JSON is not whole' json encoder.0.5.0.0 "$out" >"$work/value"
  run 0 attention "$model" "$sentence" --device cpu --png relative.png --relative
  check 'png: --relative changes nothing' sh -c '! cmp -s cross.png relative.png'
  check 'png: the same picture' sh -c '! cmp -s cross.png head.png'
  run 3 attention "$model" "$sentence" --device cpu --png missing/cross.png
  stderr_has 'missing'
else
  check 'png: no reason given' grep -q -F 'draws no PNG' "$err"
fi
run 2 attention "$model" "$sentence" --device cpu --png x.png --layer 3
stderr_has 'there is no layer 3 of cross attention'
run 2 attention "$model" "$sentence" --device cpu --png x.png --head 6 --kind decoder
stderr_has 'there is no head 6 of decoder attention'

run 2 attention "$model"
stderr_has 'one sentence'
run 2 attention "$model" "$sentence" --kind self
stderr_has 'none of encoder, decoder, cross'
run 3 attention "$model" '   ' --device cpu
stderr_has 'the sentence is empty'
run 3 attention "$work/none" "$sentence"
stderr_has 'none'
finish
