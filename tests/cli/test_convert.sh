#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tessera convert, from outside.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"

printf 'A dog runs.\n\nHow are you today?\n' >"$work/text"

# converted OUT ARGUMENT...: the model is written into $work/OUT; stdout tells of it.
converted()
{
  folder=$work/$1
  shift
  run 0 convert "$model" --out "$folder" "$@"
  stderr_is_empty
  stdout_has "$folder: "
  check "$last: temporary files are left" test -z "$(find "$folder" -name '*.partial')"
  for file in "$model"/*; do
    case $file in
    *.safetensors | */recorded) ;;
    *) check "$last: $file is missing or another" cmp -s "$file" "$folder/${file##*/}" ;;
    esac
  done
}

# The result translates as the original does in that precision, on devices with and without kernels for it.
for precision in f32 f16 bf16 int8 int4; do
  converted $precision --precision $precision
  for device in cpu reference; do
    run 0 translate --model "$model" --precision $precision --device $device --scores "$work/text"
    cp "$out" "$work/expected"
    case $precision in
    # What is merely stored in 16 bits does not permit that factors are rounded.
    f16 | bf16) asked="--precision $precision" ;;
    *) asked= ;;
    esac
    # shellcheck disable=SC2086 # two words
    run 0 translate --model "$work/$precision" $asked --device $device --scores "$work/text"
    check "$precision on $device: another translation" cmp -s "$work/expected" "$out"
  done
done

# Whole numbers take less room, and `info` tells how much.
size()
{
  wc -c <"$work/$1/model.safetensors"
}
check 'int8 is no smaller than f16' test "$(size int8)" -lt "$(size f16)"
check 'int4 is no smaller than int8' test "$(size int4)" -lt "$(size int8)"
run 0 info --json "$work/int4"
n=$(sed -n 's/.*"weight_bytes": \([0-9]*\).*/\1/p' "$out")
check "int4: info tells $n bytes of weights" test "$n" -le "$(size int4)" -a "$n" -gt $(($(size int4) - 20000))

# Into a folder that holds a model; and a converted one again, without loss.
converted int8 --precision int4
check 'a folder is not overwritten' cmp -s "$work/int8/model.safetensors" "$work/int4/model.safetensors"
run 0 convert "$work/int4" --precision int4 --out "$work/again"
check 'int4 of int4 is another' cmp -s "$work/again/model.safetensors" "$work/int4/model.safetensors"

# Calibrated with a text, or with pairs, the matrices are other ones, the same at each run.
printf 'A dog runs.\tUn chien court.\n\nHow are you today?\tComment allez-vous ?\n' >"$work/pairs"
converted by-text --precision int4 --calibrate "$work/text" --device cpu
converted by-pairs --precision int4 --calibrate "$work/pairs" --device reference
for one in int4 by-pairs; do
  check "--calibrate changes nothing ($one)" test "$(cmp "$work/by-text/model.safetensors" \
    "$work/$one/model.safetensors" | wc -l)" -eq 1
done
run 0 convert "$model" --precision int4 --calibrate - --calibrate-lines 1 --device cpu --out "$work/one-line" \
  <"$work/text"
check '--calibrate-lines: all lines are read' test "$(cmp "$work/by-text/model.safetensors" \
  "$work/one-line/model.safetensors" | wc -l)" -eq 1
run 0 convert "$model" --precision int4 --calibrate "$work/text" --device cpu --out "$work/again"
check 'calibrated again, another' cmp -s "$work/again/model.safetensors" "$work/by-text/model.safetensors"
run 0 translate --model "$work/by-text" --device cpu "$work/text"
run 2 convert "$model" --precision int8 --calibrate "$work/text" --out "$work/x"
stderr_has 'it is for --precision int4'
run 2 convert "$model" --precision int4 --device cpu --out "$work/x"
stderr_has 'nothing is computed without --calibrate'
printf ' \n\n' >"$work/blank"
run 3 convert "$model" --precision int4 --calibrate "$work/blank" --out "$work/x"
stderr_has 'blank: has no text'
run 3 convert "$model" --precision int4 --calibrate "$work/missing.txt" --out "$work/x"
stderr_has 'missing.txt: '
printf 'A dog.\nA cat.\t%s\n' "$(seq -s ' ' 2000)" >"$work/bad"
run 3 convert "$model" --precision int4 --calibrate "$work/bad" --out "$work/x"
stderr_has 'bad, line 2: the model cannot be calibrated with it'
check 'an output is left' test ! -e "$work/x/model.safetensors"

# Weights in other forms, lists of their parts and folders stay behind.
cp -r "$model" "$work/mixed"
mkdir "$work/mixed/train"
for file in pytorch_model.bin model.safetensors.index.json tf_model.h5 train/state; do
  : >"$work/mixed/$file"
done
run 0 convert "$work/mixed" --precision int8 --out "$work/one"
check 'other weights are copied' test "$(cd "$work/one" && echo *)" = "$(cd "$work/int4" && echo *)"

# What cannot be.
run 2 convert "$model" --precision int8
stderr_has 'convert: --out is needed'
run 2 convert "$model" --out "$work/x"
stderr_has 'convert: --precision is needed'
run 2 convert --precision int8 --out "$work/x"
stderr_has "one model's folder is needed"
run 2 convert "$model" --precision int5 --out "$work/x"
stderr_has 'int5'
run 3 convert "$work/int8" --precision int8 --out "$work/int8/../int8"
stderr_has 'is read, and would be overwritten'
check 'the model is damaged' cmp -s "$work/int8/model.safetensors" "$work/int4/model.safetensors"
run 3 convert "$work/missing" --precision int8 --out "$work/x"
stderr_has 'missing: '
run 3 convert "$SOURCE_ROOT/tests/data/ctranslate2/tiny-bart-float16" --precision int8 --out "$work/refused"
stderr_has 'have no form in model.safetensors'
check 'files of a model that is refused are copied' test ! -e "$work/refused/model.bin"
mkdir "$work/described"
cp "$model/config.json" "$work/described"
run 3 convert "$work/described" --precision int8 --out "$work/x"
stderr_has 'there are no weights in this folder'
finish
