# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154 # sourced by tools/cross/prepare
#
# Unpacks the libraries of Debian's arm64. They cannot be installed beside this machine's: Debian 12's
# libsentencepiece-dev and libcld2-dev exist for one architecture at a time.

triplet=aarch64-linux-gnu
qemu="qemu-aarch64-static"
install_needs "gcc-$triplet" "g++-$triplet" qemu-user-static

# What is compiled against.
wanted=
# shellcheck disable=SC2086
for need in $packages_build $packages_test; do
  case $need in
  *-dev) wanted="$wanted $need" ;;
  esac
done

apt_other()
{
  apt_copy -o APT::Architecture=arm64 -o APT::Architectures=arm64 "$@"
}

if [ ! -f "$root/files" ] || ! kept "$wanted"; then
  # shellcheck disable=SC2086
  fetch "the libraries of arm64:$wanted" apt_other --download-only install $wanted
  for package in "$root"/apt/archives/*.deb; do
    dpkg-deb --extract "$package" "$root"
    name=$(dpkg-deb --field "$package" Package)
    dpkg-deb --fsys-tarfile "$package" | tar -t | sed "s|^\.|$name |"
  done >"$root/files"
  rm -rf "$root/apt/archives"
  printf '%s\n' "$wanted" >"$root/unpacked"
fi

cat >"$root/cross.ini" <<INI
[binaries]
c = $(compiler "$triplet-gcc")
cpp = $(compiler "$triplet-g++")
ar = '$triplet-gcc-ar'
strip = '$triplet-strip'
pkgconfig = 'pkg-config'
exe_wrapper = ['$qemu', '-L', '$root']

[properties]
sys_root = '$root'
pkg_config_libdir = ['$root/usr/lib/$triplet/pkgconfig', '$root/usr/share/pkgconfig']
needs_exe_wrapper = true

[built-in options]
c_args = ['--sysroot=$root']
c_link_args = ['--sysroot=$root']
cpp_args = ['--sysroot=$root']
cpp_link_args = ['--sysroot=$root']

[host_machine]
system = 'linux'
cpu_family = '$machine'
cpu = '$machine'
endian = 'little'
INI
