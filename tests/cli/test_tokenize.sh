#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tessera tokenize, from outside; and languages where text is translated.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"

tab=$(printf '\t')

# line N TEXT: the Nth line of the last run's stdout.
line()
{
  check "$last: line $1 is not '$2'" test "$(sed -n "$1p" "$out")" = "$2"
}

# There and back, each side; an empty line; invalid UTF-8.
printf 'The museum is worth visiting.\n\ncaf\351\n' >"$work/en"
run 0 tokenize "$model" "$work/en"
stdout_has "▁The ▁museum ▁is ▁worth ▁visit ing . </s>${tab}"
line 2 "</s>${tab}0"
cp "$out" "$work/tokens"
run 0 tokenize "$model" --decode "$work/tokens"
line 1 'The museum is worth visiting.'
line 2 ''
check 'lines: not three' test "$(wc -l <"$out")" = 3
run 0 tokenize "$model" --target --json "$work/en"
check 'json: no token' test "$(head -n 1 "$out" >"$work/json"; json line "$work/json")" = 1
stdout_has '"tokens": ["▁The", ' 

# Ids that are none: told with their line, and the rest of the file is still decoded.
printf '146 0\n146 99999 x 0\n-1\n146\n' >"$work/ids"
run 3 tokenize "$model" --decode --target "$work/ids"
stderr_has "ids, line 2: '99999' is outside the vocabulary of 5001 tokens"
stderr_has "ids, line 2: 'x' is no id"
stderr_has "ids, line 3: '-1' is outside the vocabulary"
check 'ids: not four lines' test "$(wc -l <"$out")" = 4

# Byte-level BPE, made here: any text comes back.
mkdir "$work/bart"
printf '{"<s>":0,"<pad>":1,"</s>":2,"<unk>":3,"<mask>":4,"a":5,"b":6,"ab":7,"\304\240":8,"\304\240ab":9}\n' \
  >"$work/bart/vocab.json"
printf '#version: 0.2\na b\n\304\240 ab\n' >"$work/bart/merges.txt"
echo 'ab ab<mask> b?' >"$work/text"
run 0 tokenize "$work/bart" "$work/text"
line 1 "<s> ab Ġab <mask> Ġ b <unk> </s>${tab}0 7 9 4 8 6 3 2"
printf '{"tokenizer_class":"BertTokenizer"}' >"$work/bart/tokenizer_config.json"
run 3 tokenize "$work/bart" "$work/text"
stderr_has 'this build has no tokenizer "BertTokenizer"'
run 0 tokenize "$work/bart" --kind bart "$work/text"
run 2 tokenize "$work/bart" --kind words "$work/text"
stderr_has 'the kinds are marian, t5'
kinds=$(sed -n 's/.*the kinds are //p' "$err")
run 0 help tokenize
tr -s ' \n' ' ' <"$out" >"$work/help"
check "the help text does not list the kinds $kinds" grep -q -F "$kinds" "$work/help"

# Whisper: the prefix goes before a text, and stays out of it on the way back.
whisper="$SOURCE_ROOT/tests/data/goldens/speech/tokenizer"
echo 'Let me borrow that.' >"$work/text"
run 0 tokenize "$whisper" --source-lang French "$work/text"
stdout_has "${tab}657 664 762 43 315 307 283 299 81 329 438 13 656"
cp "$out" "$work/tokens"
run 0 tokenize "$whisper" --decode "$work/tokens"
line 1 'Let me borrow that.'
run 0 tokenize "$whisper" --languages
check 'languages: not 99' test "$(wc -l <"$out")" = 99
run 2 tokenize "$whisper" --source-lang klingon "$work/text"
stderr_has 'is not one of the 99 that this tokenizer has'

# Languages: SentencePiece's model is the Marian one, which serves as well as any.
mkdir "$work/nllb"
cp "$model/source.spm" "$work/nllb/sentencepiece.bpe.model"
printf '{"tokenizer_class":"NllbTokenizer"}' >"$work/nllb/tokenizer_config.json"
run 0 tokenize "$work/nllb" --languages
check 'languages: not 202' test "$(wc -l <"$out")" = 202
run 0 tokenize "$work/nllb" --source-lang fra_Latn "$work/en"
stdout_has 'fra_Latn ▁The'
run 0 tokenize "$work/nllb" --target --target-lang deu_Latn "$work/en"
stdout_has 'deu_Latn ▁The'
run 2 tokenize "$work/nllb" --source-lang fra "$work/en"
stderr_has 'not one of the 202 that this tokenizer has; the nearest: fra_Latn'
run 2 tokenize "$work/nllb" --target "$work/en"
stderr_has 'no target language was chosen'
run 2 translate --model "$model" --device reference --target-lang fra "$work/en"
stderr_has 'a tokenizer of the kind marian without tokens of languages'

# A model of many languages: the target's token comes first, and is no text.
golden=$SOURCE_ROOT/tests/data/goldens
mkdir "$work/m2m"
cp "$golden/models/m2m_100/"*.json "$golden/models/m2m_100/model.safetensors" "$work/m2m"
cp "$golden/tokenizers/m2m_100/sentencepiece.bpe.model" "$work/m2m"
head -n 44 "$golden/tokenizers/m2m_100/vocab.json" | sed '$s/,$//' >"$work/m2m/vocab.json"
echo '}' >>"$work/m2m/vocab.json"
for language in fr:67 zu:142; do # behind 43 tokens
  run 0 translate --model "$work/m2m" --device reference --max-length 8 --target-lang "${language%:*}" --json \
    "$work/text"
  check "$last: another first token" test "$(json ids.0 "$out")" = "${language#*:}"
  check "$last: its token is text" test "$(grep -c "__${language%:*}__" "$out")" = 0
  stderr_is_empty
done
run 0 translate --model "$work/m2m" --device reference --max-length 8 "$work/text"
stderr_has 'a multilingual model, but --target-lang is missing'
run 2 translate --model "$work/m2m" --device reference --source-lang ny "$work/text"
stderr_has 'the source language "ny" is not one of the 100'

# Command lines that are wrong.
run 2 tokenize
stderr_has "the model's folder is missing"
run 2 tokenize "$model" one two
run 3 tokenize "$work/nothing" "$work/en"
run 0 tokenize --help
stdout_has 'Usage: tessera tokenize'

finish
