#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What users get wrong: folders, settings, languages, texts. Each ends in a message that names the file and the reason,
# or in a defined result, and never takes other sentences with it.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"

device=cpu
unset TESSERA_DEVICE
copy=$work/copy
sed -n 1p "$model/sample.en" >"$work/one.en"

# fresh: the demo model once more, its JSON files to be edited.
fresh()
{
  rm -rf "$copy"
  mkdir "$copy"
  cp "$model"/*.json "$copy"
  ln -s "$model"/*.spm "$model"/*.safetensors "$copy"
}

# told CODE FRAGMENT...: of a translation with the copy, which prints nothing else.
told()
{
  run "$1" translate --model "$copy" --device $device "$work/one.en"
  shift
  for fragment in "$@"; do
    stderr_has "$fragment"
  done
  stdout_is_empty
  check "$last: more than one message" test "$(wc -l <"$err")" = 1
}

# A file, an edit of it, and what the message has to hold.
n_rows=0
while IFS='|' read -r file edit fragment; do
  [ -n "$file" ] || continue
  n_rows=$((n_rows + 1))
  fresh
  sed "$edit" "$copy/$file" >"$work/edited"
  check "$file: '$edit' changes nothing" sh -c '! cmp -s "$1" "$2"' - "$work/edited" "$copy/$file"
  cp "$work/edited" "$copy/$file"
  told 3 "$copy" "$fragment"
done <<'ROWS'
config.json|s/"marian"/"gpt_neox"/|key 'model_type': this build does not know the family 'gpt_neox'; it knows
config.json|s/"model_type": "marian"/"model_type": 17/|"model_type": expected a text, found 17
config.json|/"model_type"/d|'model_type' is missing
config.json|1d|not valid JSON
config.json|$d|not valid JSON
config.json|s/"d_model": 192/"d_model": "192"/|"d_model": expected an integer from 1 to 131072, found "192"
config.json|s/"d_model": 192/"d_model": -192/|"d_model": expected an integer
config.json|s/"d_model": 192/"d_model": 1e99/|"d_model"
config.json|s/"d_model": 192/"d_model": 190/|6 encoder heads do not divide d_model 190
config.json|/"d_model"/s/192/384/|tensor 'model.shared.weight' has the shape [5001, 192]; expected [5001, 384]
config.json|/"encoder_layers"/s/3/4/|.safetensors: tensor 'model.encoder.layers.3.self_attn.q_proj.weight' is missing
config.json|/"encoder_layers"/s/3/2/|tensor 'model.encoder.layers.2.fc1.bias' is of the encoder's layer 3
config.json|s/"swish"/"tanhshrink"/|does not know the activation 'tanhshrink'; it knows relu
config.json|s/"vocab_size": 5001/"vocab_size": 4000/|'pad_token_id' is 5000; the vocabulary has the ids 0 to 3999
config.json|s/"eos_token_id": 0/"eos_token_id": 6000/|'eos_token_id' is 6000
config.json|/"max_position_embeddings"/s/256/0/|"max_position_embeddings": expected an integer from 2
config.json|/"max_position_embeddings"/s/256/1/|"max_position_embeddings": expected an integer from 2
generation_config.json|s/"num_beams": 4/"num_beams": 0/|"num_beams": expected an integer from 1
generation_config.json|s/"max_length": 256/"max_length": 1/|'max_length' is 1; it should be 2 or more
generation_config.json|s/"num_beams": 4/"num_beams": "four"/|"num_beams": expected an integer from 1
generation_config.json|s/"num_beams"/"num_beam_groups": 2, &/|'num_beam_groups': this build does not have this setting
generation_config.json|s/"num_beams": 4/"constraints": [1]/|'constraints': this build does not have this setting
generation_config.json|s/"forced_eos_token_id": 0/"forced_eos_token_id": 9000/|'forced_eos_token_id' is 9000
generation_config.json|s/"num_beams": 4/"do_sample": true, &/|_config.json: keys 'do_sample' and 'num_beams': sampling
generation_config.json|1d|not valid JSON
vocab.json|s/"<\/s>"/"<\/t>"/|token "</s>" is missing
vocab.json|1d|not valid JSON
tokenizer_config.json|s/{/{"tokenizer_class": "GPT2Tokenizer",/|GPT2Tokenizer
tokenizer_config.json|1d|not valid JSON
ROWS
check 'the table was not read' test $n_rows -ge 20

# What is missing, empty, or something else.
for file in config.json vocab.json source.spm target.spm; do
  fresh
  rm "$copy/$file"
  told 3 "$copy/$file: "
  [ "$file" = config.json ] || told 3 'the tokenizer (marian): '
  : >"$copy/$file"
  told 3 "$copy/$file"
  rm "$copy/$file"
  mkdir "$copy/$file"
  told 3 "$copy/$file"
done
fresh
rm "$copy/model.safetensors"
told 3 "$copy" 'there are no weights'
: >"$copy/model.safetensors"
told 3 "$copy/model.safetensors"
# Folders of CTranslate2, and a package of Argos: the message names the file that is broken.
ctranslate2()
{
  rm -rf "$copy"
  mkdir "$copy"
  cp "$SOURCE_ROOT"/tests/data/ctranslate2/tiny-opennmt-py-int8/*.* "$copy"
}
for file in model.bin config.json shared_vocabulary.json; do
  ctranslate2
  : >"$copy/$file"
  told 3 "$copy/$file: the file is empty"
  rm "$copy/$file"
  told 3 "$copy/" "$file"
  mkdir "$copy/$file"
  told 3 "$copy/$file: expected a file, found a folder"
done
ctranslate2
head -c 30000 "$SOURCE_ROOT/tests/data/ctranslate2/tiny-opennmt-py-int8/model.bin" >"$copy/model.bin"
told 3 "$copy/model.bin" 'the file is truncated or damaged'
copy=$work/copy.argosmodel
head -c 3000 "$SOURCE_ROOT/tests/data/ctranslate2/argos/translate-en_fr-1_9.argosmodel" >"$copy"
told 3 "$copy" 'the file is truncated'
: >"$copy"
told 3 "$copy" 'truncated'
copy=$work/copy
fresh
echo '{"a": 1}' >"$copy/vocab.json"
told 3 "$copy/vocab.json"
run 3 translate --model "$model" --device $device "$work"
stderr_has "$work: expected a file, found a folder"
while read -r bytes what; do
  # shellcheck disable=SC2059 # the bytes are a format
  printf "$bytes" >"$work/no-text"
  run 3 translate --model "$model" --device $device "$work/no-text"
  stderr_has "$work/no-text: expected lines of text in UTF-8, found $what"
  stdout_is_empty
  run 3 tokenize "$model" "$work/no-text"
done <<'ROWS'
\037\213\010\000 compressed by gzip
\050\265\057\375 compressed by zstd
PK\003\004 a zip archive
\377\376h\000 UTF-16
\376\377\000h UTF-16
ROWS
for command in 'translate --model' "transcribe $work/one.en --model" 'bench --model' info program tokenize; do
  # shellcheck disable=SC2086 # a command and its option
  run 3 $command "$work/one.en"
  stderr_has "$work/one.en: expected a"
  stderr_has 'found a file'
  # shellcheck disable=SC2086
  run 3 $command Helsinki-NLP/opus-mt-en-de
  stderr_has 'Helsinki-NLP/opus-mt-en-de: there is no such folder; expected a'
  stdout_is_empty
done
run 3 translate --model "$work" --device $device "$work/one.en"
stderr_has "$work/config.json: cannot be opened"

# Languages, devices and options, on the command line.
run 2 translate --model "$model" --device $device --target-lang fra_Latn "$work/one.en"
stderr_has 'target language "fra_Latn"'
stdout_is_empty
run 2 translate --model "$model" --device $device --source-lang eng_Latn "$work/one.en"
stderr_has 'source language "eng_Latn"'
run 4 translate --model "$model" --device tpu:0 "$work/one.en"
stderr_has "there is no device 'tpu:0'; found: "
for option in '--beam 0' '--beam 65' '--max-length 1' '--length-penalty high' '--batch 0' '--precision f8' \
  '--long-input keep' '--max-source none' '--colour'; do
  # shellcheck disable=SC2086 # an option and its value
  run 2 translate --model "$model" --device $device $option "$work/one.en"
  stderr_has "${option%% *}"
  stdout_is_empty
done
run 2 translate --model "$model" --bem=4 "$work/one.en"
stderr_has 'there is no option --bem; the nearest is --beam'
run 2 translate --model "$model" --be 4 "$work/one.en"
stderr_has 'more than one option begins with --be: --beam, --begin-suppress'
run 2 train --he 4
stderr_has 'more than one option begins with --he: --heads, --help'
run 2 translate --model "$model" --tokenizer-of-another-program "$work/one.en"
stderr_has 'there is no option --tokenizer-of-another-program'
check 'a suggestion that is far off' sh -c '! grep -q nearest "$1"' - "$err"
run 2 translate "$model" "$work/one.en"
stderr_has "takes one file, but '$work/one.en' is given, too; a model is named by --model FOLDER"
run 2 translate --model "$model" "$work/one.en" "$work/one.en"
check 'the model was named' sh -c '! grep -q "model is named" "$1"' - "$err"
# Long work is not done for a file that cannot be made.
run 3 eval "$model" --source "$work/one.en" --reference "$work/one.en" --html "$work/none/page.html"
stderr_has "$work/none/page.html: cannot be written: No such file"
run 3 report --device $device --out "$work/none/page.html"
stderr_has "$work/none/page.html: cannot be written: No such file"
run 3 report --device $device --out "$work/page.html" --json "$work/none/numbers.json"
stderr_has "$work/none/numbers.json: cannot be written: No such file"
run 2 plan "$model" "$model"
stderr_has "plan: takes one model, but '$model' is given, too"

# Texts: whatever the lines are, there are as many out as in, and those that can be translated are.
good=$(sed -n 1p "$model/sample.en")
better=$(sed -n 1p "$model/sample.fr")
awk 'BEGIN { for (i = 0; i < 20000; i++) printf i % 9 == 8 ? "house. " : "house "; print "" }' >"$work/20000"
{
  printf '\357\273\277%s\r\n' "$good"
  printf '\n \t \n'
  printf '\377\376\200\n'
  printf 'a\000b\n'
  cat "$work/20000"
  printf '%s\r\n' "$good"
  printf '\355\240\200 \360\237\230\200 \302\n'
  tr -d ' \n' <"$work/20000"
  printf '\n%s' "$good"
} >"$work/odd.en"
for how in cut split error; do
  expected=0
  [ $how = error ] && expected=3
  run $expected translate --model "$model" --device $device --beam 1 --max-length 24 --long-input $how "$work/odd.en"
  check "odd, $how: not ten lines" test "$(wc -l <"$out")" = 10
  for line in 1 7 10; do
    check "odd, $how: line $line" test "$(sed -n ${line}p "$out")" = "$better"
  done
  for line in 2 3; do
    check "odd, $how: line $line is not empty" test "$(sed -n ${line}p "$out")" = ''
  done
  stderr_has 'odd.en, line 6: 2'
  stderr_has 'odd.en, line 9: '
  check "odd, $how: not two messages" test "$(wc -l <"$err")" = 2
done
check 'refused: something was translated' test "$(sed -n 6p "$out")$(sed -n 9p "$out")" = ''
stderr_has 'tokens; the model takes at most 256'
run 0 translate --model "$model" --device $device --beam 1 --max-length 24 --json "$work/odd.en"
sed -n 5p "$out" >"$work/json"
check 'odd: a NUL is lost' json source "$work/json" >"$work/value"
for line in 1 2 3 4 5 6 7 8 9 10; do
  sed -n ${line}p "$out" >"$work/json"
  check "odd: line $line is no JSON" test "$(json line "$work/json")" = $line
done

finish
