#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tessera train --speech, from outside: ten tones are learnt, heard and scored; resumed, trained on, and what is bad.
# shellcheck disable=SC2086 # $shape and $parts are options
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"
unset TESSERA_DEVICE

# little N BYTES: a number, the lowest byte first.
little()
{
  number=$1
  for _ in $(seq "$2"); do
    printf '%b' "\\0$(printf %o $((number % 256)))"
    number=$((number / 256))
  done
}

# tone FILE SAMPLES PERIOD: a WAV file of 8 bits at 16 kHz.
tone()
{
  {
    printf RIFF
    little $(($2 + 36)) 4
    printf 'WAVEfmt '
    for field in 16,4 1,2 1,2 16000,4 16000,4 1,2 8,2; do
      little "${field%,*}" "${field#*,}"
    done
    printf data
    little "$2" 4
    LC_ALL=C awk -v n="$2" -v period="$3" 'BEGIN { for (i = 0; i < n; i++) {
      printf "%c", int(128 + 90 * sin(6.283185307 * i / period)) } }'
  } >"$1"
}

mkdir "$work/sounds"
i=0
for word in one two three four five six seven eight nine ten; do
  tone "$work/sounds/$word.wav" $((4000 + 400 * i)) $((70 - 6 * i))
  printf 'sounds/%s.wav\tThis is %s.\n' $word $word
  printf 'This is %s.\n' $word >>"$work/expected"
  i=$((i + 1))
done >"$work/list.tsv"
cut -f1 "$work/list.tsv" >"$work/paths"
cut -f2 "$work/list.tsv" >"$work/texts"
sounds=$(sed "s,^,$work/," "$work/paths" | tr '\n' ' ')

run 0 vocab --speech --source "$work/list.tsv" --out "$work/vocab" --size 270 --languages en,fr
stdout_has '276 tokens for speech, from 10 sentences'
run 2 vocab --speech --source "$work/list.tsv" --out "$work/vocab" --languages english
stderr_has "no language with the code 'english'"
run 2 vocab --source "$work/list.tsv" --out "$work/none" --languages en
stderr_has '--speech, which is missing'
run 3 train --speech "$work/list.tsv" --vocab "$model" --device cpu --steps 1 --out "$work/none"
stderr_has "$model: expected a vocabulary of speech"

shape="--vocab $work/vocab --device cpu --source-positions 40 --max-positions 24 --d-model 32 --heads 4 --d-ff 64
  --encoder-layers 1 --decoder-layers 1 --dropout 0 --batch-tokens 400 --rate 0.005 --warmup 20 --schedule constant
  --time-masks 1 --time-mask-width 3 --mel-masks 1 --mel-mask-width 4 --log-every 10"
train()
{
  expected=$1
  shift
  run "$expected" train --speech "$work/list.tsv" $shape "$@"
}

# Learnt: all words are right, and the program that is used later hears them so.
train 0 --valid-source "$work/list.tsv" --steps 400 --validate-every 40 --until 1 --json --out "$work/model"
tail -n 1 "$out" >"$work/json"
check 'not learnt' test "$(json reason "$work/json")" = until
stderr_has 'WER 0.00  (best)'
for file in config.json generation_config.json preprocessor_config.json merges.txt vocab.json tokenizer_config.json; do
  check "no $file" test -s "$work/model/$file"
done
generation=$work/model/generation_config.json
check 'no_timestamps' test "$(json no_timestamps_token_id "$generation")" = 275
check 'decoder_start' test "$(json decoder_start_token_id "$generation")" = 267
check 'prev_sot' test "$(json prev_sot_token_id "$generation")" = 273
check 'transcribe' test "$(json task_to_id.transcribe "$generation")" = 271
check 'multilingual' test "$(json is_multilingual "$generation")" = true
check 'alignment_heads' test "$(json alignment_heads.3.1 "$generation")" = 3
check 'window' test "$(json n_samples "$work/model/preprocessor_config.json")" = 12800
check 'has_timestamps' test "$(json has_timestamps "$generation")" = false
run 0 transcribe --model "$work/model" --device cpu --language en $sounds
check 'another text is heard' cmp -s "$out" "$work/expected"
run 0 info "$work/model"

# The word error rate of a list, as the model hears it; and of two lists of which one text is wrong.
run 0 eval "$work/model" --source "$work/list.tsv" --device cpu --source-lang en --json
tail -n 1 "$out" >"$work/json"
check 'eval: words' test "$(json wer "$work/json")" = 0.0
sed 's/one/1/' "$work/texts" >"$work/wrong"
run 0 eval "$work/model" --source "$work/paths" --reference "$work/wrong" --device cpu --source-lang en \
  --normalizer basic --sentences "$work/errors"
stdout_has '  3.33'
check 'eval: sentences' test "$(head -n 2 "$work/errors" | tr '\t\n' '|;')" = \
  '1|33.33|This is 1.|This is one.;2|0.00|This is two.|This is two.;'
run 2 eval "$work/model" --source "$work/list.tsv" --compare greedy,beam4
stderr_has 'the model hears sounds'
run 2 eval "$work/model" --source "$work/list.tsv" --target-lang fr
stderr_has '--target-lang is for text'
# Languages and tasks of single sounds: what is heard is what transcribe hears so, and in the list's order.
awk -F '\t' -v OFS='\t' '{ print $1, $2, NR % 2 ? "" : "French", NR % 3 ? "" : "translate" }' "$work/list.tsv" \
  >"$work/mixed.tsv"
run 0 eval "$work/model" --source "$work/mixed.tsv" --device cpu --source-lang en --sentences "$work/errors"
cut -f4 "$work/errors" >"$work/heard"
ends='s/^ *//; s/ *$//'
i=0
for sound in $sounds; do
  i=$((i + 1))
  language=$([ $((i % 2)) = 0 ] && echo fr || echo en)
  task=$([ $((i % 3)) = 0 ] && echo translate || echo transcribe)
  run 0 transcribe --model "$work/model" --device cpu --language $language --task $task --no-timestamps --forget \
    --temperature 0 --no-speech-limit 1 "$sound"
  check "eval: sound $i in $language is not as transcribe hears it" \
    test "$(sed -n "${i}p" "$work/heard" | sed "$ends")" = "$(tr '\n' ' ' <"$out" | sed "$ends")"
done
sed 's/$/\txx/' "$work/list.tsv" >"$work/bad.tsv"
run 3 eval "$work/model" --source "$work/bad.tsv" --device cpu
stderr_has "bad.tsv, pair 1: "
sed 's/$/\ten\tsing/' "$work/list.tsv" >"$work/bad.tsv"
run 3 eval "$work/model" --source "$work/bad.tsv" --device cpu
stderr_has "bad.tsv, pair 1: there is no task 'sing'"
sed 's/one.wav/nobody.wav/' "$work/list.tsv" >"$work/lost.tsv"
run 3 eval "$work/model" --source "$work/lost.tsv" --device cpu
stderr_has 'sounds/nobody.wav'

# In parts it is the same training, bit for bit; so are the masks, and which windows are whole.
parts='--batch-tokens 100 --whole-windows 0.5 --timestamps 0.5' # several batches of a pass
train 0 $parts --steps 12 --out "$work/whole"
check 'whole: has_timestamps' test "$(json has_timestamps "$work/whole/generation_config.json")" = true
train 0 $parts --steps 5 --out "$work/parts"
run 0 train --resume --out "$work/parts" --steps 12
check 'resumed it is another' cmp "$work/whole/model.safetensors" "$work/parts/model.safetensors"
train 0 $parts --steps 12 --time-masks 0 --mel-masks 0 --out "$work/plain"
cmp -s "$work/whole/model.safetensors" "$work/plain/model.safetensors"
check 'masks change nothing' test $? = 1

# Validations hear sounds without masks.
for masks in 0 20; do
  train 0 --steps 1 --rate 1e-30 --time-masks $masks --time-mask-share 0 --mel-masks $masks \
    --valid-source "$work/list.tsv" --bleu-sentences 0 --json --out "$work/masks$masks"
  tail -n 1 "$out" >"$work/json"
  json valid_loss "$work/json" >"$work/loss$masks"
done
check 'masks change validations' cmp "$work/loss0" "$work/loss20"

# A model is trained on, with its own files, from two lists; one of English alone.
sed 's/"max_length": 24/"max_length": 20/' "$generation" >"$work/kept" && cp "$work/kept" "$generation"
run 0 train --speech "$work/paths" --target "$work/texts" --init "$work/model" --device cpu --steps 2 \
  --batch-tokens 400 --out "$work/tuned"
check 'tuned: another generation_config.json' test "$(json max_length "$work/tuned/generation_config.json")" = 20
check 'tuned: has_timestamps' test "$(json has_timestamps "$work/tuned/generation_config.json")" = false
run 0 train --speech "$work/paths" --target "$work/texts" --init "$work/model" --device cpu --steps 2 \
  --batch-tokens 400 --timestamps 1 --out "$work/timed"
check 'timed: has_timestamps' test "$(json has_timestamps "$work/timed/generation_config.json")" = true
check 'tuned: the recipe' grep -q '^source_positions: 40$' "$work/tuned/train/recipe.yaml"
train 0 --steps 2 --language none --out "$work/english"
check 'english: multilingual' test "$(json is_multilingual "$work/english/generation_config.json")" = false
run 0 transcribe --model "$work/english" --device cpu "$work/sounds/one.wav"

# Languages and tasks of single sounds; what is too long is left out.
sed 's/$/\tfr\ttranslate/' "$work/list.tsv" >"$work/french.tsv"
run 0 train --speech "$work/french.tsv" $shape --steps 2 --max-source 15 --out "$work/french"
stdout_has 'left out: of 10 pairs '
sed 's/$/\txx/' "$work/list.tsv" >"$work/bad.tsv"
run 2 train --speech "$work/bad.tsv" $shape --steps 2 --out "$work/none"
stderr_has "bad.tsv, pair 1: "
sed 's/$/\ten\tsing/' "$work/list.tsv" >"$work/bad.tsv"
run 3 train --speech "$work/bad.tsv" $shape --steps 2 --out "$work/none"
stderr_has "there is no task 'sing'"
printf 'sounds/nobody.wav\tNobody\n' >"$work/bad.tsv"
run 3 train --speech "$work/bad.tsv" $shape --steps 2 --out "$work/none"
stderr_has 'sounds/nobody.wav'
train 2 --steps 2 --source "$work/texts" --out "$work/none"
stderr_has '--speech'
run 3 train --speech "$work/list.tsv" --device cpu --steps 2 --init "$model" --out "$work/none"
stderr_has 'reads text'
train 2 --steps 2 --family marian --out "$work/none"
stderr_has "has family 'whisper'"

finish
