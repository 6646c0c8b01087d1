#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# examples/: each compiled against the installed library with the line that its README gives, run, and what it prints
# compared with the README and with the program. What is installed goes into a folder of the test's own.
#   BUILD_ROOT, PREFIX, LIBRARY_FOLDER  of the build
#   FAULTY, BACKENDS                    a backend that computes NaN where it is told to, and the reference that it needs
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"
unset TESSERA_BACKEND_PATH TESSERA_DEVICE LD_LIBRARY_PATH

DESTDIR=$work/root meson install -C "$BUILD_ROOT" --no-rebuild --quiet >"$out" 2>"$err" ||
  failure 'meson install' # without it nothing else works
root=$work/root$PREFIX
library=$root/$LIBRARY_FOLDER
# The folder is not the prefix: pkg-config has to be told. The library finds the backends beside itself.
sed "s|^prefix=.*|prefix=$root|" "$library/pkgconfig/tessera.pc" >"$work/tessera.pc"
export PKG_CONFIG_PATH="$work" LD_LIBRARY_PATH="$library" PATH="$root/bin:$PATH"

# As in the tree, but nothing else of it is there.
examples=$work/tree/examples
mkdir -p "$work/tree/tools"
cp -r "$SOURCE_ROOT/examples" "$work/tree/"
ln -s "$SOURCE_ROOT/tools/demo-model" "$work/tree/tools/demo-model"
model=../tools/demo-model

# example CODE COMMAND...: in the folder of the examples.
example()
{
  n_checks=$((n_checks + 1))
  expected=$1
  shift
  last=$*
  code=0
  (cd "$examples" && TESSERA_BACKEND_PATH=${path-} "$@" >"$out" 2>"$err") || code=$?
  [ $code = "$expected" ] || failure "$last: exit code $code, expected $expected"
}

# ---- the READMEs -----------------------------------------------------------------------------------------------------

# follow_command LINE: runs a command of a README; $out has what it prints on both streams. Compilers get stricter
# flags.
# shellcheck disable=SC2317 # check calls it
follow_command()
{
  last=$1
  line=$(printf '%s\n' "$1" | sed -e 's/^cc /cc -Wall -Wextra -Werror -pedantic /')
  (cd "$folder" && sh -c "$line" >"$out" 2>&1)
}

# follow FOLDER: runs the commands of its README in their order; each line that the README shows behind one has to be a
# line of what it prints.
follow()
{
  folder=$1
  n_commands=0
  : >"$err"
  while IFS= read -r line; do
    case $line in
    '    $ '*)
      n_commands=$((n_commands + 1))
      check "$folder/README.md: ${line#    }" follow_command "${line#    $ }"
      ;;
    '    ...') ;;
    '    '*)
      [ $n_commands = 0 ] || check "$last: '$line' is not printed" grep -q -x -F -e "${line#    }" "$out"
      ;;
    esac
  done <"$folder/README.md"
}

follow "$examples"
follow "$examples/backend"
check 'not all commands of backend/README.md were found' test "$n_commands" = 5
for source in "$examples"/*.c; do
  name=${source##*/}
  name=${name%.c}
  : >"$out"
  : >"$err"
  check "README.md does not compile $name.c" test -x "$examples/$name"
  line=$(sed -n "s/^    \$ \(cc .* -o $name\)\$/\1/p" "$examples/README.md")
  check "$name.c and README.md have different lines" grep -q -F -e " $line" "$source"

  # Everything is freed, and nothing is read that is not there: with the compiler's sanitizers.
  # shellcheck disable=SC2046 # words
  check "$name.c with sanitizers" cc -g -std=c11 -fsanitize=address,undefined -fno-sanitize-recover=all "$source" \
    $(pkg-config --cflags --libs tessera) -lm -pthread -o "$examples/$name.sanitized"
  example 2 "./$name"
  stderr_has "Usage: ./$name "
done

# ---- what they print -------------------------------------------------------------------------------------------------

# operators: as the reference, on every device, which computes all lines itself.
for device in cpu:0 vulkan:0; do
  if tessera devices --names | grep -q "^$device$"; then
    example 0 ./operators reference "$device"
    stdout_has "$device: 8 lines, 0 of them on another device"
    check "$last: not all four agree" test "$(grep -c ' agrees$' "$out")" = 4
  fi
done
# Another sum, or a NaN, is no agreement.
sed 's/tolerance = 1e-5f/tolerance = 0/' "$examples/operators.c" >"$examples/exact.c"
# shellcheck disable=SC2046 # words
check 'compile' cc -std=c11 "$examples/exact.c" $(pkg-config --cflags --libs tessera) -lm -o "$examples/exact"
example 1 ./exact reference cpu
stdout_has DIFFERS
FAULTY_LINE=scores path=$FAULTY example 1 ./operators reference faulty
stdout_has 'DIFFERS'
example 1 ./operators reference nosuch
stderr_has "there is no device 'nosuch'"
example 2 ./operators reference

# score: as the program.
for device in reference cpu; do
  set -- 'Il jouait au tennis toute la journée.' 'Il dormait toute la journée.' ''
  printf 'He was playing tennis all day.\n%.0s' 1 2 3 >"$work/score.en"
  printf '%s\n' "$@" >"$work/score.fr"
  run 0 score "$SOURCE_ROOT/tools/demo-model" --device $device --source "$work/score.en" --target "$work/score.fr"
  awk 'NF == 2 { printf "%8.3f\n", $2 }' "$out" >"$work/expected"
  example 0 ./score $model $device 'He was playing tennis all day.' "$@"
  sed -n 's/^\( *-[0-9.]*\)  .*/\1/p' "$out" | grep -v '^ \{9\}' >"$work/found"
  check "$last: other scores than those of tessera score" cmp -s "$work/expected" "$work/found"
  check "$last: there are no scores" test "$(wc -l <"$work/found")" = 3
  stdout_has '8 tokens, the least likely is ▁toute with '
done
example 1 ./score nosuch cpu a b
stderr_has 'nosuch: there is no such folder'
example 1 ./score $model nosuch a b
stderr_has "there is no device 'nosuch'"
example 2 ./score $model cpu a

# train: a run that is interrupted behind its first row and goes on ends with the model of the README's.
# One that has gone too far when it is, on a fast machine, begins anew.
for _ in 1 2 3 4 5; do
  rm -rf "$examples/halves"
  (cd "$examples" && exec ./train $model pairs.tsv 100000 halves cpu >"$work/half") &
  trained=$!
  while ! grep -q '^10,' "$examples/halves/train/log.csv" 2>"$err" && kill -0 $trained 2>"$err"; do
    sleep 0.02
  done
  kill -INT $trained
  check 'train: the run that was interrupted failed' wait $trained
  stopped=$(sed -n 's/^stopped after \([1-9][0-9]*\).*/\1/p' "$work/half")
  check 'train: the run was not interrupted' test -n "$stopped"
  [ "${stopped:-0}" -ge 200 ] || break
done
example 0 ./train $model pairs.tsv 200 halves cpu
stdout_has 'going on from step '
stdout_has 'finished after 200 steps: halves'
check 'train: another model after another pause' cmp -s "$examples/trained/model.safetensors" \
  "$examples/halves/model.safetensors"
example 1 ./train nosuch pairs.tsv 10 none cpu
stderr_has 'nosuch'
example 1 ./train $model nosuch.tsv 10 none cpu
stderr_has 'nosuch.tsv'
example 1 ./train $model pairs.tsv 10 none nosuch
stderr_has "there is no device 'nosuch'"

# sources and translations: of what threads printed.
sources()
{
  grep -v '^ ' "$out"
}
translations()
{
  sed -n 's/^    //p' "$out"
}

# threads: as the program, in the order of the texts.
for device in reference cpu; do
  example 0 ./threads $model $device
  stderr_has '16 texts of 8 threads'
  sources >"$work/text.en"
  translations >"$work/text.fr"
  check "$last: not 16 texts" test "$(wc -l <"$work/text.en")" = 16
  run 0 translate --model "$SOURCE_ROOT/tools/demo-model" --device $device "$work/text.en"
  check "threads on $device: other translations than those of tessera translate" cmp -s "$out" "$work/text.fr"
done
example 0 ./threads $model cpu reference # two devices share the texts
translations >"$work/two.fr"
check 'two devices translate differently' cmp -s "$work/two.fr" "$work/text.fr"
example 1 ./threads nosuch
stderr_has 'nosuch: there is no such folder'
example 1 ./threads $model nosuch
stderr_has "there is no device 'nosuch'"

# translate: the alternatives and the scores of the program, and words beside their own.
for device in reference cpu; do
  example 0 ./translate $model $device
  stdout_has '           jouait <- playing'
  stdout_has '           enfants <- children'
  stdout_has '           jardin. <- garden.'
  check "$last: a word comes twice" test "$(grep -c ' chanter, <- ' "$out")" = 1
  sources >"$work/text.en"
  sed -n 's/^ *\(-[0-9.]*\)  /\1 /p' "$out" >"$work/found"
  check "$last: not nine translations" test "$(wc -l <"$work/found")" = 9
  run 0 translate --model "$SOURCE_ROOT/tools/demo-model" --device $device --alternatives 3 "$work/text.en"
  awk -F '\t' '{ printf "%.3f %s\n", $2, $3 }' "$out" >"$work/expected"
  check "translate on $device: other translations than those of tessera translate" cmp -s "$work/expected" "$work/found"
done
example 1 ./translate nosuch
stderr_has 'nosuch: there is no such folder'
example 1 ./translate $model nosuch
stderr_has "there is no device 'nosuch'"

# stream: as the program, in pieces.
sentence="You don't have to worry." # with a beam the translation is another one
for device in reference cpu; do
  example 0 ./stream $model $device "$sentence"
  head -n 1 "$out" >"$work/found"
  check "$last: not a piece for each word or so" test "$(sed -n 's/ pieces in [0-9.]* seconds$//p' "$out")" -ge 8
  echo "$sentence" >"$work/text.en"
  run 0 translate --model "$SOURCE_ROOT/tools/demo-model" --device $device --beam 1 "$work/text.en"
  check "stream on $device: another translation than that of tessera translate" cmp -s "$out" "$work/found"
done
example 1 ./stream nosuch cpu "$sentence"
stderr_has 'nosuch: there is no such folder'
example 1 ./stream $model nosuch "$sentence"
stderr_has "there is no device 'nosuch'"

# backend: what the README made computes what the reference does, and where it does not that is found.
path=$examples/backend example 0 tessera check --devices mine --ops relu
stdout_has ' 0 failed, 0 unsupported'
sed 's/a < 0 ? 0 : a/a/' "$examples/backend/mine.c" >"$work/wrong.c"
mkdir "$work/wrong"
# shellcheck disable=SC2046 # words
check 'compile' cc -std=c11 -shared -fPIC $(pkg-config --cflags tessera) "$work/wrong.c" \
  -o "$work/wrong/libtessera-backend-mine.so"
path=$work/wrong example 1 tessera check --devices mine --ops relu

# Sanitized; what the sanitizers find ends a program with a code of its own.
export ASAN_OPTIONS=exitcode=99
example 0 ./operators.sanitized reference cpu
example 0 ./score.sanitized $model cpu 'It is raining.' 'Il pleut.'
example 0 ./threads.sanitized $model cpu
example 0 ./translate.sanitized $model cpu
example 0 ./stream.sanitized $model cpu 'It is raining.'
# An error in the middle, too.
export FAULTY_LINE=decoder.layers.0.feed_forward
path=$FAULTY example 1 ./score.sanitized $model faulty 'It is raining.' 'Il pleut.'
stderr_has 'computed NaN'
path=$FAULTY example 1 ./threads.sanitized $model faulty
stderr_has 'computed NaN'
path=$FAULTY example 1 ./translate.sanitized $model faulty
stderr_has 'computed NaN'
path=$FAULTY example 1 ./stream.sanitized $model faulty 'It is raining.'
stderr_has 'computed NaN'

finish
