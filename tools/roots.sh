# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154 # out is that of the script that sources this
#
# Bare roots of Debian's releases, in which tools/packages and tools/bundle build and test. Sourced after tools/setup.sh
# by root, with `set -eu` and the folder `out`; debootstrap is installed.

# in_root ROOT COMMAND...: without the environment of this shell.
in_root()
{
  root=$1
  shift
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS-}" chroot "$root" "$@"
}

# leave_root ROOT: nothing is mounted in it afterwards.
leave_root()
{
  for mounted in opt dev/shm dev/pts dev proc; do
    if mountpoint -q "$1/$mounted"; then
      umount "$1/$mounted"
    fi
  done
}

# run_foreign: programs of aarch64 run here as others do, in qemu's emulator, until end_foreign.
run_foreign()
{
  formats=/proc/sys/fs/binfmt_misc
  registered=no
  mountpoint -q "$formats" || mount -t binfmt_misc binfmt_misc "$formats"
  if [ ! -e "$formats/qemu-aarch64" ]; then
    sed -n '/^:/p' /usr/lib/binfmt.d/qemu-aarch64.conf >"$formats/register"
    registered=yes
  fi
}

end_foreign()
{
  if [ "${registered-}" = yes ]; then
    echo -1 >"$formats/qemu-aarch64"
  fi
}

# make_root RELEASE ROOT [ARCHITECTURE]: from an archive of the first one of that release.
make_root()
{
  bare=$out/$1${3:+-$3}-bare.tar
  leave_root "$2"
  rm -rf --one-file-system "$2"
  if [ ! -f "$bare" ]; then
    # A root that is lost with the power is made again: dpkg need not wait for the disk, file by file.
    mkdir -p "$2/etc/dpkg/dpkg.cfg.d"
    echo force-unsafe-io >"$2/etc/dpkg/dpkg.cfg.d/unsafe-io"
    debootstrap ${3:+--arch="$3"} --variant=minbase "$1" "$2" >"$out/debootstrap.log" 2>&1 ||
      fail "debootstrap failed (see $out/debootstrap.log)"
    # How packages are reached from here.
    grep -lE '^Acquire::(http|https|Check)' /etc/apt/apt.conf.d/* | xargs -r cp -t "$2/etc/apt/apt.conf.d/"
    # Nothing that is installed is started.
    printf '#!/bin/sh\nexit 101\n' >"$2/usr/sbin/policy-rc.d"
    chmod +x "$2/usr/sbin/policy-rc.d"
    in_root "$2" apt-get -q update >>"$out/debootstrap.log" 2>&1 || fail "no package lists (see $out/debootstrap.log)"
    tar -cf "$bare.new" -C "$2" .
    mv "$bare.new" "$bare"
  else
    mkdir "$2"
    tar -xpf "$bare" -C "$2"
  fi
  cp /etc/resolv.conf "$2/etc/resolv.conf"
  mount -t proc proc "$2/proc"
  for mounted in dev dev/pts dev/shm; do
    mount --bind "/$mounted" "$2/$mounted"
  done
}
