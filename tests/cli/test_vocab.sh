#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tessera vocab, from outside.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"

data=$SOURCE_ROOT/tests/data/tatoeba
en=$data/test.en
fr=$data/test.fr

# comes_back FOLDER SIDE FILE: each line survives being cut into tokens; nothing in it is unknown.
comes_back()
{
  check "$1, $2, $3: cannot be read" "$ROUND_TRIP" "$1" "$2" <"$3" >"$out" 2>"$err"
  check "$1, $2, $3: other text comes back" cmp -s "$out" "$3"
  stderr_has ', 0 unknown'
}

# A joint vocabulary: </s>, <unk>, pieces, <pad>.
run 0 vocab --source "$en" --target "$fr" --out "$work/joint" --size 600 --character-coverage 1
stdout_has 'joint: 601 tokens for both languages, from 2,000 sentences'
stderr_is_empty
check 'joint: files' test "$(cd "$work/joint" && echo *)" = 'source.spm target.spm tokenizer_config.json vocab.json'
for pair in '</s> 0' '<unk> 1' '<pad> 600'; do
  check "joint: no $pair" test "$(json "${pair% *}" "$work/joint/vocab.json")" = "${pair#* }"
done
check 'joint: not 601 tokens' test "$(grep -c '":' "$work/joint/vocab.json")" = 601
check 'joint: separate' test "$(json separate_vocabs "$work/joint/tokenizer_config.json")" = false
check 'joint: two models' cmp -s "$work/joint/source.spm" "$work/joint/target.spm"
for side in source target; do
  comes_back "$work/joint" $side "$en"
  comes_back "$work/joint" $side "$fr"
done

# The same text gives the same files, whatever form it has.
paste "$en" "$fr" >"$work/both.tsv"
run 0 vocab --source "$work/both.tsv" --out "$work/tsv" --size 600 --character-coverage 1
for side in en fr; do
  element=$([ $side = en ] && echo srcset || echo refset)
  {
    printf '<%s setid="t" srclang="any">\n<doc docid="d">\n' "$element"
    sed 's/&/\&amp;/g; s/</\&lt;/g' "$data/test.$side" | awk '{printf "<seg id=\"%d\">%s</seg>\n", NR, $0}'
    printf '</doc>\n</%s>\n' "$element"
  } >"$work/$side.sgm"
done
run 0 vocab --source "$work/en.sgm" --target "$work/fr.sgm" --out "$work/sgm" --size 600 --character-coverage 1
for form in tsv sgm; do
  for file in source.spm target.spm vocab.json tokenizer_config.json; do
    check "$form: another $file" cmp -s "$work/joint/$file" "$work/$form/$file"
  done
done

# A vocabulary for each language.
run 0 vocab --source "$en" --target "$fr" --out "$work/separate" --size 400 --separate --character-coverage 1
stdout_has '401 source and 401 target tokens'
check 'separate: not so' test "$(json separate_vocabs "$work/separate/tokenizer_config.json")" = true
check 'separate: one vocabulary' \
  test "$(cmp -s "$work/separate/vocab.json" "$work/separate/target_vocab.json"; echo $?)" = 1
comes_back "$work/separate" target "$fr"

# Byte pair encoding; into the same folder, whose files are replaced.
run 0 vocab --source "$en" --target "$fr" --out "$work/separate" --size 500 --model bpe --character-coverage 1
stdout_has '501 tokens for both'
comes_back "$work/separate" source "$en"

# Characters that the text never had are unknown, or bytes.
printf 'caf\303\251 \346\274\242\n' >"$work/rare"
check 'rare: cannot be read' "$ROUND_TRIP" "$work/joint" target <"$work/rare" >"$out" 2>"$err"
stderr_has ', 1 unknown'
run 0 vocab --source "$en" --target "$fr" --out "$work/bytes" --size 600 --byte-fallback
comes_back "$work/bytes" target "$work/rare"

# A sample: another vocabulary, but always the same one.
run 0 vocab --source "$en" --target "$fr" --out "$work/sample" --size 300 --input-size 500
run 0 vocab --source "$en" --target "$fr" --out "$work/again" --size 300 --input-size 500
run 0 vocab --source "$en" --target "$fr" --out "$work/whole" --size 300 --input-size 0
check 'sample: not the same again' cmp -s "$work/sample/source.spm" "$work/again/source.spm"
check 'sample: the whole text' test "$(cmp -s "$work/sample/source.spm" "$work/whole/source.spm"; echo $?)" = 1

run 0 vocab --source "$en" --target "$fr" --out "$work/told" --size 300 --verbose
check "$last: tells nothing" test -s "$err"

# What is wrong with it.
run 3 vocab --source "$en" --target "$fr" --out "$work/large" --size 100000
stderr_has 'Vocabulary size too high (100000). Please set it to a value <='
run 3 vocab --source "$work/none.en" --target "$fr" --out "$work/bad"
stderr_has "$work/none.en"
: >"$work/empty"
run 3 vocab --source "$work/empty" --target "$work/empty" --out "$work/bad"
stderr_has 'there is no text in it'
printf 'one\ttwo\nno tab\n' >"$work/bad.tsv"
run 3 vocab --source "$work/bad.tsv" --out "$work/bad"
stderr_has 'bad.tsv'
stderr_has '2'
head -n 999 "$fr" >"$work/short.fr"
run 3 vocab --source "$en" --target "$work/short.fr" --out "$work/bad" --size 300
stderr_has 'short.fr'
run 3 vocab --source "$en" --target "$fr" --out "$work/empty/folder"
stderr_has "$work/empty"
run 3 vocab --source "$en" --target "$fr" --out "$model"
stderr_has 'holds a model'
run 2 vocab --source "$en" --target "$fr"
stderr_has '--out'
run 2 vocab --source "$en" --out "$work/bad" --model word
stderr_has 'unigram'
run 2 vocab --source "$en" --out "$work/bad" --size 5 more
for bad in 1.1 0.5 x; do
  run 2 vocab --source "$en" --out "$work/bad" --character-coverage $bad
  stderr_has '--character-coverage'
done

finish
