#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What tessera translate is asked beyond the settings of the search: beginnings, alternatives, a stream, attention.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"

device=$("$TESSERA" devices --names | grep '^reference' | head -n 1)
head -n 3 "$model/sample.en" >"$work/three.en"
head -n 3 "$model/sample.fr" >"$work/three.fr"
head -n 1 "$work/three.en" >"$work/one.en"

# translate CODE ARGUMENT...: with the demo model on the reference.
translate()
{
  wanted=$1
  shift
  run "$wanted" translate --model "$model" --device "$device" "$@"
}

# A beginning that the model would choose itself changes nothing; another does, on every device alike.
cut -d ' ' -f 1-2 "$work/three.fr" >"$work/own"
translate 0 --beam 1 "$work/three.en"
cp "$out" "$work/greedy.fr"
cut -d ' ' -f 1-2 "$work/greedy.fr" >"$work/own"
translate 0 --beam 1 --prefix-file "$work/own" "$work/three.en"
check 'own beginnings: another translation' cmp -s "$out" "$work/greedy.fr"
translate 0 --prefix 'Nous' "$work/three.en"
check 'a beginning: not in each line' test "$(grep -c '^Nous ' "$out")" = 3
cp "$out" "$work/begun.fr"
for other in $("$TESSERA" devices --names | grep -v '^reference'); do
  run 0 translate --model "$model" --device "$other" --prefix 'Nous' "$work/three.en"
  check "$other: another translation" cmp -s "$out" "$work/begun.fr"
done

# Each line its own, an empty one none; an empty sentence stays empty.
printf 'Elle\n\nNous\nVous\n' >"$work/prefixes"
{
  sed -n 1,2p "$work/three.en"
  echo
  sed -n 3p "$work/three.en"
} >"$work/four.en"
translate 0 --prefix-file "$work/prefixes" "$work/four.en"
check 'prefix file: line 1' test "$(sed -n 1p "$out" | cut -d ' ' -f 1)" = Elle
check 'prefix file: line 2' test "$(sed -n 2p "$out")" = "$(sed -n 2p "$work/three.fr")"
check 'prefix file: line 3' test -z "$(sed -n 3p "$out")"
check 'prefix file: line 4' test "$(sed -n 4p "$out" | cut -d ' ' -f 1)" = Vous
translate 3 --prefix-file "$work/own" "$model/sample.en"
stderr_has "$work/own"
translate 3 --prefix-file "$work/no-such-file" "$work/one.en"
stderr_has "$work/no-such-file"
translate 2 --prefix Nous --prefix-file "$work/own" "$work/one.en"
translate 0 --max-length 6 --prefix 'Nous ne savons pas encore quand il viendra' "$work/one.en"
stderr_has 'cut to 4'

# Alternatives: another first token behind the prefix in each, the best first, and the best that of the search.
translate 0 --alternatives 4 --prefix 'Il' "$work/one.en"
check 'alternatives: not four' test "$(grep -c '^1	-[0-9.]*	Il' "$out")" = 4
check 'alternatives: some are equal' test "$(cut -f 3 "$out" | sort -u | wc -l)" = 4
check 'alternatives: not the best' test "$(head -n 1 "$out" | cut -f 3)" = "$(head -n 1 "$work/three.fr")"
translate 0 --alternatives 2 --beam 1 --json "$work/one.en"
check 'alternatives: not two objects' test "$(wc -l <"$out")" = 2
translate 2 --alternatives 1 "$work/one.en"

# Text as it comes is the same text.
translate 0 --stream "$work/four.en"
{
  sed -n 1,2p "$work/three.fr"
  echo
  sed -n 3p "$work/three.fr"
} >"$work/four.fr"
check 'stream: another text' cmp -s "$out" "$work/four.fr"
translate 0 --stream --beam 1 "$work/three.en"
check 'stream: another text' cmp -s "$out" "$work/greedy.fr"
translate 2 --stream --json "$work/one.en"

# Attention: a row for each token, a number for each source token.
translate 0 --json --attention "$work/one.en"
cp "$out" "$work/json"
check 'attention: no last row' json attention.9.0 "$work/json" >"$work/value"
check 'attention: no token' test "$(json tokens.9 "$work/json")" = '</s>'
check 'attention: no source token' test "$(json source_tokens.0 "$work/json")" = '▁He'
translate 0 --json --attention --attention-layer 1 "$work/one.en"
check 'attention: the same in another layer' test "$(json attention.0.0 "$out")" != "$(json attention.0.0 "$work/json")"
translate 0 --json --attention --attention-layer 1 --attention-heads 0,2 "$work/one.en"
check 'attention: the same of other heads' test "$(json attention.0.0 "$out")" != "$(json attention.0.0 "$work/json")"
translate 2 --json --attention --attention-heads 0,x "$work/one.en"
translate 2 --json --attention --attention-heads 6 "$work/one.en"
stderr_has '--attention-heads is 0x40; the decoder has 6 heads'
translate 2 --json --attention --attention-layer 9 "$work/one.en"
stderr_has '--attention-layer is 9; it should be 0 to'
translate 2 --attention "$work/one.en"
stderr_has '--json'

# Alignment: a source token for each token but the last.
echo 'Tom lives in Boston.' >"$work/names.en"
translate 0 --json --alignment "$work/names.en"
check 'alignment: Tom is not made from Tom' test "$(json tokens.0 "$out") $(json alignment.0 "$out")" = '▁Tom 0'
check 'alignment: attention was not asked for' sh -c '! grep -q \"attention\" "$0"' "$out"
translate 2 --alignment "$work/names.en"
stderr_has '--json'

# The coverage penalty makes scores lower, never higher.
translate 0 --scores "$work/one.en"
cp "$out" "$work/plain"
translate 0 --scores --coverage-penalty 0.5 "$work/one.en"
check 'coverage: a score that is not lower' awk -v a="$(cut -f 1 "$out")" -v b="$(cut -f 1 "$work/plain")" \
  'BEGIN { exit !(a < b) }'

# Unknown tokens: the source's word that they attended to, whole, and once for several tokens of it.
echo 'I live in 東京.' >"$work/unknown.en"
for other in $("$TESSERA" devices --names); do
  run 0 translate --model "$model" --device "$other" --prefix "J'habite à 東京" "$work/unknown.en"
  check "$other: no unknown token was left out" test "$(cat "$out")" = "J'habite à ."
  run 0 translate --model "$model" --device "$other" --prefix "J'habite à 東京" --replace-unknown "$work/unknown.en"
  check "$other: the unknown word is not there" test "$(cat "$out")" = "J'habite à 東京."
done
translate 0 --replace-unknown "$work/three.en"
check 'nothing unknown: another translation' cmp -s "$out" "$work/three.fr"
translate 2 --replace-unknown --stream "$work/one.en"

# A shortlist of everything changes nothing, whatever type the weights have; nor does one that has what is needed.
printf '.\t.\n' >"$work/dot"
for precision in f32 f16 bf16 int8; do
  translate 0 --precision $precision --beam 1 "$work/three.en"
  cp "$out" "$work/plain"
  translate 0 --precision $precision --beam 1 --shortlist "$work/dot" --shortlist-first 5001 "$work/three.en"
  check "shortlist, $precision: another translation" cmp -s "$out" "$work/plain"
done
paste "$work/three.en" "$work/three.fr" >"$work/words"
translate 0 --shortlist "$work/words" "$work/three.en"
check 'shortlist of words: another translation' cmp -s "$out" "$work/three.fr"
{
  echo '▁Il ▁He 0.9'
  echo '▁Elle NULL 0.1'
} >"$work/lexical"
translate 0 --shortlist "$work/lexical" --shortlist-first 200 --shortlist-best 1 --json "$work/one.en"
check 'shortlist: a token from outside' test "$(json ids.1 "$out")" -lt 256
for other in $("$TESSERA" devices --names | grep -v '^reference'); do
  translate 0 --shortlist "$work/lexical" "$work/three.en"
  cp "$out" "$work/listed.fr"
  run 0 translate --model "$model" --device "$other" --shortlist "$work/lexical" "$work/three.en"
  check "shortlist, $other: another translation" cmp -s "$out" "$work/listed.fr"
done
echo 'one two' >"$work/broken"
translate 3 --shortlist "$work/broken" "$work/one.en"
stderr_has "$work/broken, line 1"
echo 'nothing known 0.5' >"$work/unknown"
translate 3 --shortlist "$work/unknown" "$work/one.en"
stderr_has 'no line has tokens'

finish
