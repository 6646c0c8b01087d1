# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2034 # set here, used where this is sourced
#
# What the laboratory's scripts and tools/check share: where it lies, which chips it has, how a program runs on one.
# Sourced from the project's root after tools/setup.sh.

user_cache=${XDG_CACHE_HOME:-${HOME:-$PWD/build-logs}/.cache}/tessera
lab=${TESSERA_LAB_FOLDER:-$user_cache/lab}
drivers=$lab/drivers
libraries=$drivers/usr/lib/x86_64-linux-gnu
intel_shim=$lab/intel/libintel_noop_drm_shim.so

# VENDOR CHIP: what the drivers' stand-in for a kernel calls the chip.
chips='amd polaris10
amd vega20
amd navi10
amd navi21
amd navi31
amd gfx1201
nvidia 130
nvidia 162
nvidia 177
nvidia 192
intel skl
intel tgl
intel dg2
intel mtl
intel bmg
apple m1
qualcomm 730
qualcomm 750'

# apt_state FOLDER LINE...: a state of apt's own in FOLDER, with these lines as its sources; sets apt_options. No root.
apt_state()
{
  state=$1
  shift
  mkdir -p "$state/lists/partial" "$state/deb/partial"
  : >"$state/status"
  printf '%s\n' "$@" >"$state/sources.list"
  apt_options="-o Dir::Etc::sourcelist=$state/sources.list -o Dir::Etc::sourceparts=/dev/null
    -o Dir::Etc::preferencesparts=/dev/null -o Dir::State::lists=$state/lists -o Dir::State::status=$state/status
    -o Dir::Cache=$state -o Dir::Cache::archives=$state/deb -o Debug::NoLocking=true -o APT::Update::Error-Mode=any
    -o APT::Architecture=amd64 -o APT::Architectures=amd64"
  if [ "$(id -u)" = 0 ]; then
    apt_options="$apt_options -o APT::Sandbox::User=root"
  fi
}

# fetch_swiftshader AGAIN: fetches SwiftShader, which Debian has inside chromium-common, into the user's cache, with
# "yes" even if it is there; prints its manifest, or nothing if it cannot be had. Logs into build-logs/swiftshader.log.
fetch_swiftshader()
{
  cache=$user_cache/swiftshader
  manifest=$cache/vk_swiftshader_icd.json
  if [ -f "$manifest" ] && [ "$1" = no ]; then
    say "$manifest"
    return
  fi
  sandbox=
  if [ "$(id -u)" = 0 ]; then
    sandbox='-o APT::Sandbox::User=root'
  fi
  # Within the cache, so that each file is there in one step. What is hours old is of a run that was killed; others may
  # be at it.
  # shellcheck disable=SC2086 # $sandbox is words
  if (
    mkdir -p "$cache" && find "$cache" -maxdepth 1 -name 'part.*' -mmin +180 -exec rm -rf {} + || exit 1
    part=$(mktemp -d "$cache/part.XXXXXX") || exit 1
    trap 'rm -rf "$part"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' HUP TERM
    cd "$part" && apt-get -q $sandbox download chromium-common && dpkg-deb --fsys-tarfile chromium-common_*.deb |
      tar x --strip-components=4 ./usr/lib/chromium/libvk_swiftshader.so ./usr/lib/chromium/vk_swiftshader_icd.json &&
      mv libvk_swiftshader.so "$cache/" && mv vk_swiftshader_icd.json "$manifest"
  ) >build-logs/swiftshader.log 2>&1; then
    say "$manifest"
  fi
}

# 1 unless the drivers are there, all of them.
have_drivers()
{
  [ -f "$drivers/complete" ]
}

# Why a chip cannot be opened here; nothing if it can.
why_not()
{
  if ! have_drivers; then
    say "the driver folder is not there (tools/lab/fetch)"
  elif [ "$1" = intel ] && [ ! -f "$intel_shim" ]; then
    say "Intel's shim is not there (tools/lab/fetch --intel)"
  fi
}

# on_chip VENDOR CHIP PROGRAM ARGUMENT...: replaces this shell by the program, run by the folder's loader on that
# driver. VENDOR lavapipe executes (CHIP counts for nothing); what a program computes on the others is not there:
# submits succeed and memory stays as it was.
on_chip()
{
  vendor=$1
  chip=$2
  shift 2
  shim=
  case $vendor in
  lavapipe) driver=lvp ;;
  amd)
    driver=radeon shim=$libraries/libamdgpu_noop_drm_shim.so
    export AMDGPU_GPU_ID="$chip"
    ;;
  nvidia)
    driver=nouveau shim=$libraries/libnouveau_noop_drm_shim.so
    export NOUVEAU_CHIPSET="$chip" NVK_I_WANT_A_BROKEN_VULKAN_DRIVER=1
    ;;
  intel)
    driver=intel shim=$intel_shim
    export INTEL_STUB_GPU_PLATFORM="$chip"
    ;;
  apple) driver=asahi shim=$libraries/libasahi_noop_drm_shim.so ;;
  qualcomm)
    driver=freedreno shim=$libraries/libfreedreno_noop_drm_shim.so
    export FD_GPU_ID="$chip"
    ;;
  *) fail "there is no vendor $vendor: amd, nvidia, intel, apple, qualcomm, lavapipe" ;;
  esac
  export VK_ICD_FILENAMES="$drivers/usr/share/vulkan/icd.d/${driver}_icd.json"
  export VK_LAYER_PATH="$drivers/usr/share/vulkan/explicit_layer.d"
  export XDG_RUNTIME_DIR="${XDG_RUNTIME_DIR:-/tmp}" MESA_SHADER_CACHE_DISABLE=1
  if [ -n "$shim" ]; then
    set -- --preload "$shim" "$@"
  fi
  exec "$drivers/usr/lib64/ld-linux-x86-64.so.2" --inhibit-cache --library-path "$libraries" "$@"
}

# export_backends FOLDER: a program that the drivers' loader runs cannot tell where it lies; it is told where a build's
# backends are.
export_backends()
{
  backends=
  for backend in cpu reference vulkan; do
    backends=$backends${backends:+:}$1/backends/$backend
  done
  export TESSERA_BACKEND_PATH="$backends"
}
