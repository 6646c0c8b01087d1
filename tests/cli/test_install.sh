#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# meson install, then a program outside the tree against what was installed. Runs only where the build's prefix lies
# inside its own folder (tools/check configures it so): a test installs nothing elsewhere.
#   BUILD_ROOT, PREFIX, LIBRARY_FOLDER, VERSION  of the build
set -u
case $PREFIX in
"$BUILD_ROOT"/*) ;;
*)
  echo "the prefix $PREFIX is not inside $BUILD_ROOT"
  exit 77
  ;;
esac
. "$SOURCE_ROOT/tests/cli/harness.sh"
unset TESSERA_BACKEND_PATH TESSERA_DEVICE
unset LD_LIBRARY_PATH # names the build's library; the installed one is to be found
rm -rf "$PREFIX"
trap 'rm -rf "$work" "$PREFIX"' EXIT

# outside COMMAND...: from an unrelated folder.
# shellcheck disable=SC2317 # check calls it
outside()
{
  last=$*
  (cd "$work" && "$@" >"$out" 2>"$err")
}

check 'meson install' outside meson install -C "$BUILD_ROOT" --no-rebuild --quiet
library=$PREFIX/$LIBRARY_FOLDER
export PKG_CONFIG_PATH="$library/pkgconfig"
cp "$SOURCE_ROOT/tests/cli/outside.c" "$work/"
check 'pkg-config' outside pkg-config --cflags --libs tessera
flags=$(cat "$out")
# shellcheck disable=SC2086 # words
check 'compile' outside cc -std=c11 -pedantic -Wall -Wextra -Werror outside.c -o outside $flags "-Wl,-rpath,$library"
check 'run on the installed reference' outside ./outside reference
stdout_has 'reference:0: 11 22 33'
for plugin in "$library"/tessera/libtessera-backend-*.so; do
  name=${plugin##*backend-}
  name=${name%.so}
  if [ "$name" != template ] && "$TESSERA" devices --names | grep -q "^$name:"; then
    check "run on the installed $name" outside ./outside "$name:0"
    stdout_has "$name:0: 11 22 33"
  fi
done
check 'pkg-config knows the plugins' outside pkg-config --variable=plugindir tessera
check 'the plugins are not where pkg-config says' test -f "$(cat "$out")/libtessera-backend-reference.so"

# Each header alone, as C and as C++.
for header in "$PREFIX"/include/tessera/*.h; do
  printf '#include <tessera/%s>\n' "${header##*/}" >"$work/header.c"
  cp "$work/header.c" "$work/header.cc"
  check "${header##*/} as C" outside cc -std=c11 -pedantic-errors -Wall -Wextra -Werror -fsyntax-only \
    "-I$PREFIX/include" header.c
  check "${header##*/} as C++" outside c++ -std=c++11 -pedantic-errors -Wall -Wextra -Werror -fsyntax-only \
    "-I$PREFIX/include" header.cc
done

# The installed program, from an unrelated folder.
check 'the installed program translates' outside "$PREFIX/bin/tessera" translate --model "$model" --device reference \
  "$model/sample.en"
check 'the installed program: not the recorded translations' cmp -s "$out" "$model/sample.fr"

# The unit starts the installed program.
unit=$PREFIX/lib/systemd/system/tessera-serve.service
if [ -e "$library/tessera/libtessera-component-serve.so" ]; then
  check 'the unit does not start the installed program' grep -q "^ExecStart=$PREFIX/bin/tessera serve " "$unit"
fi

# Moved to a folder whose name would be two in a list of folders.
mv "$PREFIX" "$work/moved:here"
check 'the moved program' outside "$work/moved:here/bin/tessera" devices --names
stdout_has 'reference:0'

# Components are opened where the program was moved to, and what is wrong with one ends its commands alone.
folder="$work/moved:here/$LIBRARY_FOLDER/tessera"
printf '<p>The cat sleeps.</p>' >"$work/page.html"
# component NAME ARGUMENT...: a command that opens it.
component()
{
  file=$folder/libtessera-component-$1.so
  shift
  if [ ! -e "$file" ]; then
    return 0
  fi
  check "the component ${file##*-}" outside "$work/moved:here/bin/tessera" "$@"
  mv "$file" "$file.away"
  check "without ${file##*-}" outside_fails 3 "$@"
  stderr_has "the file ${file##*/} is not there"
  printf 'no shared object' >"$file"
  check "a broken ${file##*-}" outside_fails 3 "$@"
  stderr_has "${file##*/}: cannot be loaded"
  LC_ALL=C sed "s/$VERSION/9.9.9/g" "$file.away" >"$file"
  check "${file##*-} of another version" outside_fails 3 "$@"
  stderr_has "${file##*/}: is no component of this program, tessera $VERSION, but of tessera 9.9.9"
  mv "$file.away" "$file"
  check "the component ${file##*-} again" outside "$work/moved:here/bin/tessera" "$@"
}
# outside_fails CODE ARGUMENT...: the moved program ends with that code, and works otherwise.
# shellcheck disable=SC2317 # check calls it
outside_fails()
{
  wanted=$1
  shift
  outside "$work/moved:here/bin/tessera" --version
  code=$?
  outside "$work/moved:here/bin/tessera" "$@"
  [ $? = "$wanted" ] && [ $code = 0 ]
}
component documents document --model "$model" --device reference page.html page.fr.html
component png attention "$model" 'The cat sleeps.' --device reference --png cross.png
component serve help serve
check 'help of all commands' outside "$work/moved:here/bin/tessera" help --json

finish
