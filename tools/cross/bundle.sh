# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154,SC1091 # sourced by tools/bundle
#
# tools/bundle --windows: the archive for Windows, tested with Wine.

. tools/cross/display.sh

# DLLs of Windows itself.
from_windows='kernel32.dll msvcrt.dll shell32.dll advapi32.dll psapi.dll user32.dll ole32.dll'

# dlls_of FILE: those that it needs.
dlls_of()
{
  "$triplet-objdump" -p "$1" | sed -n 's/^[[:space:]]*DLL Name: //p'
}

# Windows finds a program's DLLs in its folder: the compiler's libraries lie there, too.
take_runtime()
{
  for library in libwinpthread-1.dll libgcc_s_seh-1.dll libstdc++-6.dll; do
    cp "$root/bin/$library" "$tree/bin/"
    "$triplet-strip" "$tree/bin/$library"
  done
  for file in "$tree"/bin/*.exe "$tree"/bin/*.dll "$tree"/bin/tessera/*.dll; do
    for library in $(dlls_of "$file"); do
      case " $from_windows " in
      *" $(say "$library" | tr '[:upper:]' '[:lower:]') "*) ;;
      *) [ -f "$tree/bin/$library" ] || fail "${file##*/} needs $library, which the bundle does not have" ;;
      esac
    done
  done
}

# What Debian says about the rights in the libraries that are within, and in the compiler's.
take_licences()
{
  licences=$tree/share/doc/tessera/licences
  mkdir -p "$licences"
  cp "$root"/licences/* "$licences/"
  for package in libz-mingw-w64-dev gcc-mingw-w64-base mingw-w64-common; do
    cp "/usr/share/doc/$package/copyright" "$licences/$package"
  done
}

# The same bytes each time: names in order, one time, no owner.
pack()
{
  find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
  rm -f "$archive"
  (cd "$out" && find "$name" -type f | sort | TZ=UTC zip -q -9 -X -D "$archive" -@)
}

# As a user would: unpacked in a folder with a name in Unicode, where nothing can be written; Wine's own files are new.
test_windows()
{
  say "Testing with Wine"
  start_display "$out"
  folder=$out/"für Windows"
  rm -rf "$folder"
  mkdir -p "$folder"
  unzip -q "$archive" -d "$folder"
  chmod -R a-w "$folder"
  there=$folder/$name
  here=$PWD
  demo=$there/share/tessera/demo-model
  for device in cpu reference vulkan:0; do
    tools/cross/wine "$root" "$there/bin/tessera.exe" translate --model "$demo" --device "$device" \
      "$demo/sample.en" >"$out/translated" || fail "the bundle does not translate on $device"
    diff "$out/translated" "$demo/sample.fr" || fail "other sentences on $device"
  done
  tools/cross/wine "$root" "$there/bin/tessera.exe" check --devices cpu,vulkan:0 --share 384 >"$out/check.log" ||
    fail "check fails (see $out/check.log)"
  rm -f "$out/report.json"
  tools/cross/wine "$root" "$there/bin/tessera.exe" report --minutes 9 --device cpu --part start \
    --out "$out/report.html" >"$out/report.log" || fail "report fails (see $out/report.log)"
  [ "$(grep -c '"state": "passed"' "$out/report.json")" = 2 ] || fail "the report is not right ($out/report.json)"
  for program in translate operators; do
    PKG_CONFIG_LIBDIR="$there/lib/pkgconfig" "$triplet-gcc-posix" -std=c11 \
      "$there/share/doc/tessera/examples/$program.c" -I"$there/include" -L"$there/lib" -ltessera -lm \
      -o "$out/$program.exe" || fail "the example $program does not compile against the bundle"
  done
  # The arguments of such a program are in the code page of Windows, which has not every name.
  export WINEPATH="Z:$there/bin"
  (cd "$there" && "$here/tools/cross/wine" "$root" "$out/translate.exe" share/tessera/demo-model) \
    >"$out/example.log" || fail "the example translate fails (see $out/example.log)"
  tools/cross/wine "$root" "$out/operators.exe" cpu reference >"$out/example.log" ||
    fail "the example operators fails (see $out/example.log)"
  unset WINEPATH
  chmod -R u+w "$folder"
  rm -rf "$folder"
  stop_display
  say "Wine: passed"
}

root=$PWD/build-windows-root
triplet=x86_64-w64-mingw32
name=tessera-$version-windows-x86_64
tree=$out/$name
archive=$out/$name.zip
install_needs zip unzip
tools/cross/prepare windows
unset CC CXX CC_LD CXX_LD

say "Building $name"
configure build-release-windows --cross-file "$root/cross.ini" --prefix=/usr/local --libdir=lib -Dbuildtype=release \
  -Dtests=false -Dvulkan=enabled -Ddocuments=disabled -Dserve=disabled -Dpng=disabled -Dzstd=disabled \
  -Daudio=disabled -Dlibav=disabled -Dpkgconfig.relocatable=true \
  -Dglslang="$PWD/tools/lab/glslang"
compile build-release-windows
rm -rf "$tree" "$out/installed"
DESTDIR="$out/installed" meson install -C build-release-windows --no-rebuild --strip --quiet
mv "$out/installed/usr/local" "$tree"
rm -r "$out/installed"
take_runtime
take_licences
mkdir -p "$tree/share/doc/tessera/docs"
cp -r tools/demo-model "$tree/share/tessera/"
cp README.md LICENSE CHANGELOG.md "$tree/share/doc/tessera/"
cp docs/*.md "$tree/share/doc/tessera/docs/"
cat >"$tree/README.txt" <<TEXT
Tessera $version for Windows on x86-64

  bin\\tessera translate --model share\\tessera\\demo-model share\\tessera\\demo-model\\sample.en
  bin\\tessera devices
  bin\\tessera report

The last one writes a page about this machine's devices, in ten minutes for each, without anything personal.

A GPU needs its own driver, which brings Vulkan. share\\doc\\tessera\\docs has the pages. To compile a program against
the library with MinGW:

  gcc program.c -Iinclude -Llib -ltessera

The program is started with bin in PATH. The libraries within have licences of their own: share\\doc\\tessera\\licences.
TEXT
if grep -rlF "$PWD" "$tree" >"$out/named" 2>/dev/null; then
  fail "these files name the folder that the bundle was made in: $(tr '\n' ' ' <"$out/named")"
fi
pack
size=$(stat -c %s "$archive")
say "$archive: $((size >> 10)) KiB"
[ "$size" -le "$most" ] || fail "the archive is larger than $((most >> 20)) MiB"
if [ "$releases" ]; then
  test_windows
fi
