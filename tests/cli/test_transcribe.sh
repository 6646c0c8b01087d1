#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tessera transcribe, from outside: forms, several files, streams, and what is refused.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"

recordings=$SOURCE_ROOT/tests/data/goldens/speech
sounds=$recordings/features
listener=$recordings/models/whisper_tiny_random

# What the original made of long31.wav, and of its beginning, fox.wav: segments with text alone.
transcribe()
{
  code=$1
  shift
  run "$code" transcribe --model "$listener" --device cpu --language English --forget --temperature 0 \
    --logprob-limit -1000 "$@"
}

printed()
{
  printf %b "$1" >"$work/expected"
  check "$last: printed something else" cmp -s "$work/expected" "$out"
}

transcribe 0 "$sounds/fox.wav"
printed 'c| yv8\n]2^Jp\n]\\\n'
stderr_is_empty
cp "$out" "$work/fox.txt"
transcribe 0 "$sounds/fox.wav" --output srt
printed '1\n00:00:00,300 --> 00:00:01,780\nc| yv8\n\n2\n00:00:02,020 --> 00:00:02,420\n]2^Jp\n\n'\
'3\n00:00:02,420 --> 00:00:03,080\n]\\\n\n'
transcribe 0 "$sounds/fox.wav" --output vtt
printed 'WEBVTT\n\n00:00.300 --> 00:01.780\nc| yv8\n\n00:02.020 --> 00:02.420\n]2^Jp\n\n'\
'00:02.420 --> 00:03.080\n]\\\n\n'
transcribe 0 "$sounds/fox.wav" --output tsv
printed 'start\tend\ttext\n300\t1780\tc| yv8\n2020\t2420\t]2^Jp\n2420\t3080\t]\\\n'
transcribe 0 "$sounds/fox.wav" --output json
check 'json: a line is none' test "$(json language "$out")" = en
check 'json: text' test "$(json text "$out")" = 'c| yv8]2^Jp]\'
stdout_has '"duration": 3.08,'
check 'json: end' test "$(json segments.0.end "$out")" = 1.78
check 'json: seek' test "$(json segments.2.seek "$out")" = 242

transcribe 0 "$sounds/fox.wav" --output json --words
stdout_has '"words": [{"word": "c'
stdout_has '"probability": '
transcribe 2 "$sounds/fox.wav" --words
stderr_has '--words needs --output json'

# A segment without text stands in JSON alone.
run 0 transcribe "$sounds/fox.wav" --model "$listener" --device cpu --language en --temperature 0 --output json
check 'silent: no segment without text' test -z "$(json segments.2.text "$out")"
run 0 transcribe "$sounds/fox.wav" --model "$listener" --device cpu --language en --temperature 0 --output srt
check 'silent: not two subtitles' test "$(grep -c -e '-->' "$out")" = 2

# Numbers that were asked for are told as they were asked for.
transcribe 0 "$sounds/fox.wav" --output json --temperature 0.85
stdout_has '"temperature": 0.85,'

# A sound without a frame: no text, and the language that was named.
head -c 46 "$sounds/fox.wav" >"$work/one.wav"
printf '\002\000\000\000' | dd of="$work/one.wav" bs=1 seek=40 conv=notrunc status=none
transcribe 0 "$work/one.wav" --output json
check 'one sample: another text' test -z "$(json text "$out")"
check 'one sample: another language' test "$(json language "$out")" = en
transcribe 0 "$work/one.wav"
check 'one sample: something is printed' test ! -s "$out"

# Several files: in their order, each in a file of its own, and those that are good beside one that is not.
transcribe 0 "$sounds/fox.wav" "$sounds/count.wav"
head -n "$(wc -l <"$work/fox.txt")" "$out" >"$work/first"
check 'two files: the first is not first' cmp -s "$work/first" "$work/fox.txt"
mkdir "$work/made"
transcribe 3 "$sounds/fox.wav" "$work/missing.wav" "$sounds/count.wav" --out "$work/made"
stderr_has 'missing.wav: cannot be opened'
check 'out: not two files' test "$(ls "$work/made" | tr '\n' ' ')" = 'count.txt fox.txt '
check 'out: another text' cmp -s "$work/made/fox.txt" "$work/fox.txt"
cp "$sounds/count.wav" "$work/fox.wav"
transcribe 2 "$sounds/fox.wav" "$work/fox.wav" --out "$work/made"
stderr_has 'would both be written to fox.txt'
transcribe 2 "$sounds/fox.wav" "$sounds/count.wav" --output srt
stderr_has 'several files in the form srt need --out FOLDER'
transcribe 3 "$sounds/fox.wav" --out "$work/nowhere"
stderr_has 'there is no such folder'
run 4 transcribe "$sounds/fox.wav" --model "$listener" --device cpu,reference
stderr_has "there is no device 'cpu,reference', and several are not taken here; found: "

# Streams: a WAV file, and samples without a header.
hear_stream()
{
  "$TESSERA" transcribe - --model "$listener" --device cpu --language English --forget --temperature 0 \
    --logprob-limit -1000 "$@"
}

transcribe_stream()
{
  last="tessera transcribe - $*"
  hear_stream "$@" >"$out" 2>"$err" || failure "$last: failed"
  check "$last: another text" cmp -s "$out" "$work/fox.txt"
}
transcribe_stream <"$sounds/fox.wav"
tail -c +45 "$sounds/fox.wav" | transcribe_stream --raw s16 --rate 16000 --channels 1

# One that breaks off: all that came is heard.
head -c 200000 "$sounds/long31.wav" | tail -c +45 | hear_stream --raw s16 >"$work/came" 2>"$err"
last='tessera transcribe -, of a stream that is cut'
head -c 200000 "$sounds/long31.wav" | hear_stream >"$out" 2>"$err"
check "$last: another exit code" test $? -eq 3
check "$last: another text" cmp -s "$out" "$work/came"
stderr_has 'bytes before its samples do; what was heard before is written'

# A file that ends too early: nothing is heard.
head -c 60000 "$sounds/long31.wav" >"$work/cut.wav"
transcribe 3 "$work/cut.wav"
stderr_has 'cut.wav'

# What is refused.
run 2 transcribe "$sounds/fox.wav"
stderr_has '--model is missing'
transcribe 2
stderr_has 'name at least one file'
transcribe 2 "$sounds/fox.wav" --diarize
stderr_has '--diarize'
transcribe 2 "$sounds/fox.wav" --temperature 0.2,hot
stderr_has "--temperature takes numbers from 0 to 100, not 'hot'"
transcribe 2 "$sounds/fox.wav" --rate 8000
stderr_has 'need --raw'
run 3 transcribe "$sounds/fox.wav" --model "$model"
stderr_has 'reads text, not sound'
run 0 transcribe "$sounds/fox.wav" --model "$listener" --device cpu --language '<|EN|>' --temperature 0
run 0 transcribe "$sounds/fox.wav" --model "$listener" --device cpu --language AUTO --temperature 0
run 2 transcribe "$sounds/fox.wav" --model "$listener" --device cpu --language klingon
stderr_has 'klingon'

finish
