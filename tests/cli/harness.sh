# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2034
#
# For tests of the program from outside. Sourced with `set -u`; the environment names what is tested:
#   TESSERA       the program
#   JSON_VALUE    tests/cli/json_value.c, built
#   SOURCE_ROOT   the project
# Each check prints one line if it fails; finish ends the test.

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
out=$work/out
err=$work/err
n_checks=0
n_failures=0
model=$SOURCE_ROOT/tests/data/marian-en-fr

failure()
{
  n_failures=$((n_failures + 1))
  printf 'FAILED: %s\n' "$*"
  sed 's/^/    stdout: /' "$out" | head -n 8 | cut -c -400
  sed 's/^/    stderr: /' "$err" | head -n 8 | cut -c -400
}

# check TEXT COMMAND...: COMMAND must succeed.
check()
{
  n_checks=$((n_checks + 1))
  text=$1
  shift
  "$@" || failure "$text"
}

# run CODE ARGUMENT...: the program with these arguments must end with CODE; $out and $err hold what it printed.
run()
{
  n_checks=$((n_checks + 1))
  expected=$1
  shift
  code=0
  "$TESSERA" "$@" >"$out" 2>"$err" || code=$?
  last="tessera $*"
  [ $code = "$expected" ] || failure "$last: exit code $code, expected $expected"
}

# Of the last run: something was printed there.
stdout_has()
{
  check "$last: stdout lacks '$1'" grep -q -F -e "$1" "$out"
}

stderr_has()
{
  check "$last: stderr lacks '$1'" grep -q -F -e "$1" "$err"
}

stderr_is_empty()
{
  check "$last: stderr is not empty" test ! -s "$err"
}

stdout_is_empty()
{
  check "$last: stdout is not empty" test ! -s "$out"
}

# json PATH FILE: the value at a path such as devices.0.name; fails if FILE is not JSON or lacks it.
json()
{
  "$JSON_VALUE" "$1" <"$2"
}

# find_browser: sets $browser; without one the test ends, skipped. The shell, Chromium without its own windows, is the
# cheapest.
find_browser()
{
  browser=
  for name in chromium-headless-shell chromium chromium-browser google-chrome; do
    if [ -z "$browser" ] && command -v "$name" >/dev/null; then
      browser=$name
    fi
  done
  if [ -z "$browser" ]; then
    echo 'skipped: there is no Chromium'
    exit 77
  fi
}

# visit PAGE FILE: opens a page in $work whose script puts what it saw, an object with a list of errors, between two @@;
# that goes into FILE.
visit()
{
  flags='--headless --disable-gpu --disable-dev-shm-usage --no-first-run --virtual-time-budget=5000'
  [ "$(id -u)" != 0 ] || flags="$flags --no-sandbox"
  code=0
  # shellcheck disable=SC2086 # the flags are words
  HOME=$work timeout 60 "$browser" $flags --user-data-dir="$work/profile" --enable-logging=stderr --dump-dom \
    "file://$work/$1" >"$work/dom.html" 2>"$work/browser.log" || code=$?
  check 'the browser failed' test $code = 0
  check 'the console tells of something' sh -c '! grep CONSOLE "$1"' - "$work/browser.log"
  grep -o '@@{.*}@@' "$work/dom.html" | sed -e 's/@@//g' -e 's/&lt;/</g; s/&gt;/>/g; s/&quot;/"/g; s/&amp;/\&/g' >"$2"
  cp "$2" "$out"
  check 'the page saw nobody' test -s "$2"
  check 'errors on the page' test "$(json errors "$2")" = '[]'
}

finish()
{
  printf '%d checks, %d failed\n' $n_checks $n_failures
  [ $n_failures = 0 ]
  exit
}
