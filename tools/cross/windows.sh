# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154 # sourced by tools/cross/prepare
#
# Builds the libraries that Debian has not built for Windows, from Debian's sources, as static ones: libtessera.dll and
# tessera.exe have them within. The headers of Vulkan and volk are the same everywhere.

triplet=x86_64-w64-mingw32
# posix: the variant of the compiler whose C++ library has threads, by winpthreads.
install_needs gcc-mingw-w64-x86-64-posix g++-mingw-w64-x86-64-posix libz-mingw-w64-dev libvulkan-dev \
  libvulkan-volk-dev cmake ninja-build dpkg-dev 'pkgconf|pkg-config' wine64 wine xvfb

wanted="jansson libyaml utf8proc sentencepiece cmocka"
# What the stamp says beside the sources: raised when the steps below change.
steps=2

# What Debian's lists give as binary packages, asked for as sources.
list_sources()
{
  mkdir -p "$root/apt/sources.list.d"
  : >"$root/apt/sources.list"
  for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    if [ -f "$list" ]; then
      sed -n 's/^deb /deb-src /p' "$list" >>"$root/apt/sources.list"
    fi
  done
  for list in /etc/apt/sources.list.d/*.sources; do
    if [ -f "$list" ]; then
      sed 's/^Types:.*/Types: deb-src/' "$list" >"$root/apt/sources.list.d/${list##*/}"
    fi
  done
}

apt_sources()
{
  apt_copy -o "Dir::Etc::sourcelist=$root/apt/sources.list" -o "Dir::Etc::sourceparts=$root/apt/sources.list.d" "$@"
}

# folder_of PACKAGE: prints the folder of its source.
folder_of()
{
  find "$root/src" -mindepth 1 -maxdepth 1 -type d -name "$1-[0-9]*"
}

# build PACKAGE TARGETS CMAKE-OPTION...: configures in a folder "build" of the source and makes the targets.
build()
{
  say "Building $1 for Windows"
  source=$(folder_of "$1")
  targets=$2
  shift 2
  # shellcheck disable=SC2086
  {
    cmake -S "$source" -B "$source/build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$root/toolchain.cmake" "$@" &&
      ninja -C "$source/build" $targets
  } >>"$setup_log" 2>&1 || {
    tail -n 20 "$setup_log" >&2
    fail "$source does not compile for Windows (whole log: $setup_log)"
  }
}

# describe NAME VERSION FLAGS LIBRARIES: writes the file by which pkg-config finds it.
describe()
{
  cat >"$root/lib/pkgconfig/$1.pc" <<PC
Name: $1
Description: $1, for Windows
Version: $2
Cflags: -I$root/include $3
Libs: -L$root/lib $4
PC
}

version_of()
{
  folder=$(folder_of "$1")
  printf '%s' "${folder##*-}"
}

build_libraries()
{
  cat >"$root/toolchain.cmake" <<CMAKE
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER $triplet-gcc-posix)
set(CMAKE_CXX_COMPILER $triplet-g++-posix)
set(CMAKE_RC_COMPILER $triplet-windres)
set(CMAKE_FIND_ROOT_PATH $root)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_BUILD_TYPE Release CACHE STRING "")
set(CMAKE_C_FLAGS "-ffile-prefix-map=$root=." CACHE STRING "")
set(CMAKE_CXX_FLAGS "-ffile-prefix-map=$root=." CACHE STRING "")
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG" CACHE STRING "")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG" CACHE STRING "")
set(CMAKE_INSTALL_PREFIX "$root" CACHE PATH "")
set(BUILD_SHARED_LIBS OFF CACHE BOOL "")
CMAKE
  mkdir -p "$root/include" "$root/lib/pkgconfig" "$root/bin"

  build jansson install -DJANSSON_EXAMPLES=OFF -DJANSSON_BUILD_DOCS=OFF -DJANSSON_WITHOUT_TESTS=ON
  build libyaml install -DBUILD_TESTING=OFF
  build utf8proc install
  build cmocka install -DWITH_EXAMPLES=OFF -DWITH_STATIC_LIB=ON
  mv "$root/lib/libcmocka-static.a" "$root/lib/libcmocka.a"
  rm "$root/lib/libcmocka.dll.a" "$root/bin/cmocka.dll"
  # A patch of Debian's leaves out the static libraries. Protocol Buffers is within the source.
  sed -i 's/^\( *add_library(sentencepiece[a-z_]*\) SHARED/\1 STATIC/' "$(folder_of sentencepiece)/src/CMakeLists.txt"
  build sentencepiece "sentencepiece sentencepiece_train" -DSPM_ENABLE_TCMALLOC=OFF
  for name in sentencepiece sentencepiece_train; do
    cp "$(folder_of sentencepiece)/build/src/lib$name.a" "$root/lib/"
  done
  cp "$(folder_of sentencepiece)/src/sentencepiece_processor.h" \
    "$(folder_of sentencepiece)/src/sentencepiece_trainer.h" "$root/include/"
  # Debian's build of zlib for Windows: without its library of imports the linker takes the static one.
  cp "/usr/$triplet/lib/libz.a" "$root/lib/"
  cp "/usr/$triplet/include/zlib.h" "/usr/$triplet/include/zconf.h" "$root/include/"
  cp -R /usr/include/vulkan /usr/include/vk_video /usr/include/volk.c /usr/include/volk.h "$root/include/"

  # What Debian says about the rights in what will be within a bundle.
  mkdir -p "$root/licences"
  for name in $wanted; do
    cp "$(folder_of "$name")/debian/copyright" "$root/licences/$name"
  done

  describe jansson "$(version_of jansson)" "" -ljansson
  describe yaml-0.1 "$(version_of libyaml)" -DYAML_DECLARE_STATIC -lyaml
  describe libutf8proc "$(version_of utf8proc)" -DUTF8PROC_STATIC -lutf8proc
  describe sentencepiece "$(version_of sentencepiece)" "" "-lsentencepiece_train -lsentencepiece"
  describe cmocka "$(version_of cmocka)" "" -lcmocka
  describe zlib "$(sed -n 's/^Version: //p' "/usr/$triplet/lib/pkgconfig/zlib.pc")" "" -lz
  describe vulkan "$(pkg-config --modversion vulkan)" "" ""
}

if ! kept "$wanted ($steps)"; then
  list_sources
  rm -rf "$root/src" "$root/include" "${root:?}/lib" "${root:?}/bin"
  mkdir -p "$root/src"
  # shellcheck disable=SC2086
  (cd "$root/src" && fetch "the sources of $wanted" apt_sources source $wanted)
  build_libraries
  rm -rf "$root/src"
  printf '%s\n' "$wanted ($steps)" >"$root/unpacked"
fi

# The libraries of the compiler and its threads are shared, not in each file: libtessera.dll, the backends and the
# program hand each other threads and memory, so there is one heap of C++ and one table of threads for all.
runtime()
{
  for name in libgcc_s_seh-1.dll libstdc++-6.dll libwinpthread-1.dll; do
    cp -u "$($triplet-g++-posix -print-file-name=$name)" "$root/bin/$name"
  done
}
runtime

# How this machine starts a program for Windows: tools/cross/wine, with what is kept in the root.
cat >"$root/wine" <<SCRIPT
#!/bin/sh
exec "$PWD/tools/cross/wine" "$root" "\$@"
SCRIPT
chmod +x "$root/wine"
# Wine's own files, without what it would ask to fetch.
if [ ! -f "$root/prefix/system.reg" ]; then
  WINEDLLOVERRIDES="mscoree,mshtml=" "$root/wine" wineboot -i >>"$setup_log" 2>&1 || {
    tail -n 20 "$setup_log" >&2
    fail "Wine does not start"
  }
fi

cat >"$root/cross.ini" <<INI
[binaries]
c = $(compiler "$triplet-gcc-posix")
cpp = $(compiler "$triplet-g++-posix")
ar = '$triplet-gcc-ar-posix'
strip = '$triplet-strip'
windres = '$triplet-windres'
dlltool = '$triplet-dlltool'
pkgconfig = 'pkg-config'
exe_wrapper = ['$root/wine']

[properties]
pkg_config_libdir = ['$root/lib/pkgconfig']
needs_exe_wrapper = true

# No time is put into what is linked: the same sources give the same bytes.
[built-in options]
c_args = ['-I$root/include']
c_link_args = ['-L$root/lib', '-Wl,--no-insert-timestamp']
cpp_args = ['-I$root/include']
cpp_link_args = ['-L$root/lib', '-Wl,--no-insert-timestamp']

[host_machine]
system = 'windows'
cpu_family = 'x86_64'
cpu = 'x86_64'
endian = 'little'
INI
