# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2034,SC2086 # the lists are used where this is sourced, as words
#
# What tools/demo and tools/check share: the packages of Debian and Ubuntu that Tessera needs, their installation, the
# build. Sourced from the project's root, in a shell with `set -eu`.

# One need a word; where distributions name a package differently, the names are joined by '|' and the first that exists
# is taken. libprotobuf-dev: the file sentencepiece.pc of Debian 13 asks for it. npm|nodejs: npm brings nodejs, and a
# nodejs from elsewhere brings npm.
packages_build='gcc g++ libc6-dev meson ninja-build pkgconf|pkg-config glslang-tools libvulkan-dev libvulkan-volk-dev
  libjansson-dev libsentencepiece-dev libutf8proc-dev libyaml-dev zlib1g-dev libzstd-dev libprotobuf-dev
  libxml2-dev libzip-dev libsndfile1-dev libsoxr-dev
  libmicrohttpd-dev libcld2-dev nettle-dev'
packages_run='libvulkan1 mesa-vulkan-drivers libopenblas0-pthread'
packages_test='libcmocka-dev vulkan-validationlayers libpango1.0-dev fonts-dejavu-core
  zstd curl python3-jsonschema openapi-specification
  python3-cffi python3-numpy python3-pytest python3-mesonpy python3-pip python3-tqdm mypy'
packages_extra='clang llvm lld libclang-rt-dev|libclang-rt-18-dev|libclang-common-14-dev clang-format clang-tidy
  haproxy chromium-headless-shell|chromium npm|nodejs man-db zsh fish mkdocs doxygen reuse
  slurm-wlm munge libopenmpi-dev openmpi-bin
  libavformat-dev libavcodec-dev libswresample-dev'

oldest_meson=1.0.1
# Of clang-format and clang-tidy: Debian 12's.
style_version=14

say()
{
  printf '%s\n' "$*"
}

fail()
{
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 2
}

is_installed()
{
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

can_be_installed()
{
  apt-cache policy "$1" 2>/dev/null | grep -q '^ *Candidate: [^(]'
}

# Prints those of the needs in "$@" that no installed package meets.
missing_needs()
{
  for need in "$@"; do
    met=no
    for name in $(printf '%s' "$need" | tr '|' ' '); do
      if is_installed "$name"; then
        met=yes
      fi
    done
    if [ $met = no ]; then
      printf '%s\n' "$need"
    fi
  done
}

# Prints one package for each need in "$@": the first name that the package lists know, else the first.
choose_packages()
{
  for need in "$@"; do
    names=$(printf '%s' "$need" | tr '|' ' ')
    chosen=${names%% *}
    for name in $names; do
      # Of one name nothing is asked: reading the package lists takes a second.
      if [ "$name" = "$names" ] || can_be_installed "$name"; then
        chosen=$name
        break
      fi
    done
    printf '%s\n' "$chosen"
  done
}

# Prints how to become root for apt-get: "" (already), "sudo -n", or fails.
root_prefix()
{
  if [ "$(id -u)" = 0 ]; then
    return 0
  fi
  if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then
    printf 'sudo -n'
    return 0
  fi
  return 1
}

# Installs what is missing of the needs in "$@", or says exactly what is and exits with 2. With TESSERA_NO_INSTALL set
# to anything it never installs.
install_needs()
{
  command -v dpkg-query >/dev/null 2>&1 ||
    fail "this is neither Debian nor Ubuntu: install the packages of tools/setup.sh by hand, then see CONTRIBUTING.md"
  missing=$(missing_needs "$@")
  if [ -z "$missing" ]; then
    return 0
  fi
  if [ -z "${TESSERA_NO_INSTALL-}" ] && prefix=$(root_prefix); then
    say "Installing packages:" $missing
    $prefix env DEBIAN_FRONTEND=noninteractive apt-get -q update >"$setup_log" 2>&1 ||
      say "apt-get update failed (see $setup_log); going on with the package lists that are there"
    chosen=$(choose_packages $missing | tr '\n' ' ')
    # Another apt may be at work: this one waits for it.
    $prefix env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends \
      -o DPkg::Lock::Timeout=300 install $chosen >>"$setup_log" 2>&1 || {
      tail -n 20 "$setup_log" >&2
      fail "apt-get could not install: $chosen"
    }
    return 0
  fi
  chosen=$(choose_packages $missing | tr '\n' ' ')
  printf '%s: packages are missing, and installing them takes root. Run:\n\n' "${0##*/}" >&2
  printf '  apt-get install --no-install-recommends %s\n\n' "$chosen" >&2
  exit 2
}

# at_least A B: version A is B or newer.
at_least()
{
  [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]
}

check_meson()
{
  found=$(meson --version)
  at_least "$found" "$oldest_meson" ||
    fail "meson $oldest_meson or newer is needed, but $found is installed;" \
      "to install a newer one: apt-get install pipx && pipx install meson"
}

# configure FOLDER OPTION...: sets up a build folder, or brings one that exists to these options.
configure()
{
  folder=$1
  shift
  log=build-logs/$folder.setup.log
  if [ -f "$folder/build.ninja" ]; then
    set -- --reconfigure "$@"
  fi
  meson setup "$@" "$folder" >"$log" 2>&1 || {
    tail -n 30 "$log" >&2
    fail "meson could not set up $folder (whole log: $log)"
  }
}

# compile FOLDER [TARGET...]: everything, or these targets.
compile()
{
  folder=$1
  shift
  log=build-logs/$folder.compile.log
  ninja -C "$folder" "$@" >"$log" 2>&1 || {
    grep -E -A 12 '^FAILED|error' "$log" | head -n 60 >&2
    fail "$folder does not compile (whole log: $log)"
  }
}

mkdir -p build-logs
setup_log=build-logs/setup.log
