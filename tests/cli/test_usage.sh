#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Help, and command lines that are wrong.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"

run 2
stdout_is_empty
stderr_has 'tessera: a command is missing'

run 0 --version
stdout_has 'tessera 0.'
stderr_is_empty

run 0 --help
cp "$out" "$work/help"
stdout_has 'Exit codes:'
stderr_is_empty
run 0 help
check 'tessera help and tessera --help differ' cmp -s "$out" "$work/help"

commands=$(sed -n '/^Commands:/,/^$/s/^  \([a-z-]*\)  .*/\1/p' "$work/help")
columns=$(awk '/^Commands:/ { on = 1; next } !NF { on = 0 } on { match($0, /^  [^ ]+ +/); print RLENGTH }' "$work/help")
check 'the summaries of commands begin in several columns' test "$(printf '%s\n' "$columns" | sort -u | wc -l)" = 1

for command in $commands; do
  run 0 "$command" --help
  cp "$out" "$work/$command"
  stdout_has 'Usage: tessera'
  stderr_is_empty
  run 0 help "$command"
  check "help $command and $command --help differ" cmp -s "$out" "$work/$command"
  if [ "$command" != help ]; then
    run 2 "$command" --no-such-option
    stdout_is_empty
    stderr_has 'no-such-option'
    run 2 "$command" -X
    stdout_is_empty
  fi
done

# One command computes on several devices, another on one.
for command in 'translate several compute side by side' 'attention several only with --split' \
  'trace several only with --split' 'profile several only with --split'; do
  run 0 help "${command%% *}"
  tr -s ' \n' ' ' <"$out" >"$work/help"
  check "help ${command%% *} does not say: ${command#* }" grep -q -F -e "${command#* }" "$work/help"
  check "help ${command%% *} has --device twice" test "$(grep -c '^  --device ' "$out")" = 1
done

run 2 no-such-command
stderr_has "unknown command 'no-such-command'"
stderr_has 'translate'
run 2 --model x translate
stderr_has "'--model' stands before the command"
run 2 help no-such-command
run 2 help devices translate
run 2 help bench opz
stderr_has "unknown command 'bench opz'; the commands of bench: ops, machine"
run 2 bench opz
stderr_has "unknown command 'bench opz'; the commands of bench: ops, machine"
stderr_has 'a model is named by --model FOLDER'
run 2 report compar
stderr_has "unknown command 'report compar'; the commands of report: compare"

run 2 translate
stderr_has '--model'
run 2 translate --model
stderr_has 'needs a value'
run 2 translate --model x --strict=yes
stderr_has 'takes no value'
for bad in '' 0 -1 65 1x 1e1 99999999999999999999; do
  run 2 translate --model "$model" --beam "$bad"
  stderr_has '--beam'
done
for bad in '' x nan inf 1e99 1,0; do
  run 2 translate --model "$model" --length-penalty "$bad"
  stderr_has '--length-penalty'
done
run 2 translate --model "$model" --precision f64
stderr_has 'f16'
stderr_has 'int8'
run 2 translate --model "$model" --weights f16
run 2 translate --model "$model" one two
run 2 devices one

if [ -w /dev/full ]; then
  code=0
  "$TESSERA" --help >/dev/full 2>"$err" || code=$?
  check "output that cannot be written: exit code $code, expected 3" test $code = 3
  check 'output that cannot be written: no message' grep -q 'standard output' "$err"
fi

finish
