#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tools/lab: what drivers say of pipelines against what is recorded, with made-up drivers.
set -u
. "$SOURCE_ROOT/tests/cli/harness.sh"

results=$work/results
record=$work/pipelines.txt
chips='amd navi31
intel bmg'
mkdir "$results"

# amd SHADER OCCUPANCY SPILLS: a pipeline as AMD's driver tells of it.
amd()
{
  printf '{"making": "%s", "spec": [64, 1], "subgroup": 0}\n' "$1"
  printf '{"made": "%s", "spec": [64, 1], "subgroup": 0, "executables": [{"name": "compute", "subgroup": 64, ' "$1"
  printf '"statistics": {"VGPRs": 24, "Spilled VGPRs": %s, "Spilled SGPRs": 9, "Scratch size": 0, ' "$3"
  printf '"Subgroups per SIMD": %s, "Instructions": 100, "Inverse Throughput": 50}}]}\n' "$2"
  printf '{"used": "%s", "spec": [64, 1], "subgroup": 0, "variant": %s, "forced": false}\n' "$1" "${4-null}"
}

# intel SHADER [WIDTH SPILLS]...: Intel's compiles for several sizes of subgroups.
intel()
{
  printf '{"making": "%s", "spec": [64], "subgroup": 0}\n' "$1"
  printf '{"made": "%s", "spec": [64], "subgroup": 0, "executables": [' "$1"
  shift
  between=
  while [ $# -gt 1 ]; do
    printf '%s{"name": "compute", "subgroup": %s, "statistics": {"Spills": %s, ' "$between" "$1" "$2"
    printf '"Scratch Memory Size": %s, "Max live registers": 40, "Instructions": 90, "Cycles": 1000}}' "$2"
    between=', '
    shift 2
  done
  printf ']}\n'
}

# write_results: both chips as they should be.
write_results()
{
  for chip in amd-navi31 intel-bmg; do
    echo '{"device": "D", "driver": "1", "statistics": true, "shaders": ["softmax", "topk"]}' >"$results/$chip.json"
    echo 0 >"$results/$chip.code"
    : >"$results/$chip.log"
  done
  amd softmax 16 0 >>"$results/amd-navi31.json"
  amd matmul_tiled 20 0 '"matmul.tiled"' >>"$results/amd-navi31.json"
  intel softmax 16 0 32 7 >>"$results/intel-bmg.json"
}

# table CODE WHAT [EXTENT]
table()
{
  n_checks=$((n_checks + 1))
  code=0
  /usr/bin/python3 -S "$SOURCE_ROOT/tools/lab/table.py" "$2" "$results" "$record" 3 "${3-whole}" "$chips" \
    >"$out" 2>"$err" || code=$?
  last="table.py $2"
  [ $code = "$1" ] || failure "$last: exit code $code, expected $1"
}

write_results
table 0 update
stdout_has '2 pipelines on 2 chips'
check 'the record lacks the variant' grep -q '^matmul.tiled matmul_tiled  *20 *-$' "$record"
check 'the width that does not spill counts' grep -q '^softmax  *16  *16$' "$record"
table 0 against
stdout_has '3 compared on 2 chips, 0 failed, 0 chips skipped'
table 0 table
stdout_has 'never made: topk'
stdout_has 'matmul.tiled matmul_tiled'
table 0 json
stdout_has '"pipeline": "matmul.tiled matmul_tiled"'

# A tenth less is let pass, more is not.
sed -i 's/"Subgroups per SIMD": 20/"Subgroups per SIMD": 18/' "$results/amd-navi31.json"
table 0 against
sed -i 's/"Subgroups per SIMD": 18/"Subgroups per SIMD": 17/' "$results/amd-navi31.json"
table 1 against
stdout_has 'FAILED: amd-navi31 matmul.tiled matmul_tiled: occupancy 17, 20 recorded'

# Of the specialisations that are recorded the worst counts; one that is not is held against nothing.
write_results
amd matmul_tiled 10 0 '"matmul.tiled"' | sed 's/64, 1/64, 2/' >>"$results/amd-navi31.json"
table 0 against
table 0 update
check 'the worst is not recorded' grep -q '^matmul.tiled matmul_tiled  *10 *-$' "$record"
table 0 against
sed -i 's/"Subgroups per SIMD": 10/"Subgroups per SIMD": 8/' "$results/amd-navi31.json"
table 1 against
stdout_has 'occupancy 8, 10 recorded'

# Where none is recorded any more, all are held against the record.
sed -i 's/64, [12]\]/64, 3]/' "$results/amd-navi31.json"
table 1 against
stdout_has 'occupancy 8, 10 recorded'
write_results
table 0 update

# One chip recorded anew: what is recorded of the other stays, with its digests, and what none makes any more goes.
amd gone 4 0 >>"$results/amd-navi31.json"
intel kept 16 0 >>"$results/intel-bmg.json"
table 0 update
write_results
rm "$results"/intel-bmg.*
amd fresh 12 0 >>"$results/amd-navi31.json"
sed -i 's/"Subgroups per SIMD": 20/"Subgroups per SIMD": 10/' "$results/amd-navi31.json"
table 0 update
stdout_has '4 pipelines on 1 chips'
check 'the chip is not recorded anew' grep -q '^matmul.tiled matmul_tiled  *10 *-$' "$record"
check 'its new pipeline is missing' grep -q '^fresh  *12 *-$' "$record"
check 'what was recorded of the other chip is lost' grep -q '^softmax  *16  *16$' "$record"
check "a pipeline of the other chip's is lost" grep -q '^kept  *-  *16$' "$record"
check 'a pipeline that none makes is still there' sh -c '! grep -q gone "$1"' - "$record"
write_results
intel kept 15 0 >>"$results/intel-bmg.json"
rm "$results"/amd-navi31.*
table 0 against
stdout_has '2 compared on 1 chips, 0 failed'
write_results
table 0 update

# Spills, of a pipeline that is known, and of a new one; a new one alone is told.
write_results
sed -i 's/"Spilled VGPRs": 0/"Spilled VGPRs": 3/' "$results/amd-navi31.json"
table 1 against
stdout_has 'FAILED: amd-navi31 softmax: spills 3, scratch 0; 0 recorded'
write_results
amd topk 16 0 >>"$results/amd-navi31.json"
table 0 against
stdout_has 'amd-navi31 topk: new, occupancy 16'
write_results
intel topk 16 2 >>"$results/intel-bmg.json"
table 1 against
stdout_has 'FAILED: intel-bmg topk: spills 2'

# What is put up with is recorded, and no more than that.
table 0 update
table 0 against
sed -i 's/!4/!3/' "$record"
table 1 against

# A pipeline that does not compile; a driver that ends the program; a program that failed otherwise.
write_results
table 0 update
echo '{"made": "softmax", "spec": [65], "subgroup": 0, "error": "the driver made no pipeline"}' \
  >>"$results/intel-bmg.json"
table 1 against
stdout_has 'FAILED: intel-bmg softmax: does not compile'
table 2 update
write_results
echo '{"making": "topk", "spec": [65], "subgroup": 0}' >>"$results/intel-bmg.json"
echo 139 >"$results/intel-bmg.code"
table 1 against
stdout_has 'FAILED: intel-bmg topk: does not compile: the driver ended the program'
write_results
echo 4 >"$results/intel-bmg.code"
echo 'tessera: no device' >"$results/intel-bmg.log"
table 1 against
stdout_has 'FAILED: intel-bmg: the program ended with 4: tessera: no device'
table 1 table

# A chip that cannot be opened here is told and passed over, and nothing is recorded without it.
write_results
rm "$results"/intel-bmg.*
echo 'skipped: no shim' >"$results/intel-bmg.skipped"
table 0 against
stdout_has 'intel-bmg skipped: no shim'
stdout_has '1 chips skipped'
table 2 update
stderr_has 'intel-bmg skipped'

# All of them: nothing was compared, which is no success.
rm "$results"/amd-navi31.*
echo 'skipped: no drivers' >"$results/amd-navi31.skipped"
table 1 against
stdout_has 'FAILED: nothing was compared'
table 1 table
rm "$results"/*

# A program that ended with 1 and tells of no pipeline that does not compile failed otherwise.
write_results
echo 1 >"$results/intel-bmg.code"
echo 'FAILED: softmax' >"$results/intel-bmg.log"
table 1 against
stdout_has 'FAILED: intel-bmg: the program ended with 1: FAILED: softmax'
table 2 update

# One that was killed with those who waited for it.
write_results
echo - >"$results/intel-bmg.code"
rm "$results/intel-bmg.log"
table 1 against
stdout_has 'FAILED: intel-bmg: it was stopped before its program ended'

# A line that was cut off is the failure of that chip alone.
write_results
printf '{"making": "topk", "spe' >>"$results/intel-bmg.json"
table 1 against
stdout_has 'FAILED: intel-bmg: line 4 of what the driver says is no JSON'
stdout_has '3 compared on 2 chips, 1 failed'

# A figure that is compared and that the driver tells under no name that is known; a driver that tells nothing.
write_results
sed -i 's/"Spilled VGPRs"/"VGPRs spilled"/' "$results/amd-navi31.json"
table 1 against
lacking="'Spilled VGPRs' of 2 of 2 pipelines, first matmul.tiled matmul_tiled"
stdout_has "FAILED: amd-navi31: the driver does not tell $lacking"
stdout_has ', 1 failed'
table 1 table
table 2 update
stderr_has "'Spilled VGPRs'"
write_results
sed -i 's/, "executables": .*/}/' "$results/intel-bmg.json"
table 1 against
stdout_has "FAILED: intel-bmg: the driver does not tell 'Spills' or 'Spill count' of 1 of 1 pipelines"

# A pipeline that is recorded for other chips only, and one that is made no more: news unless the run left programs out.
write_results
intel matmul_tiled 16 0 >>"$results/intel-bmg.json"
table 0 against
stdout_has '1 not recorded'
write_results
echo 'matmul_old 8 -' >>"$record"
intel matmul_old 16 0 >>"$results/intel-bmg.json"
table 1 against
stdout_has 'intel-bmg matmul_old: recorded as never made there (-), not compared'
stdout_has 'FAILED: matmul_old: recorded, but no longer made on amd-navi31'
table 0 against limited
stdout_has '1 recorded pipelines (1 with their chips) are not in this limited run'

# A record that cannot be read names the line.
write_results
table 0 update
write_results
echo 'softmax 16' >>"$record"
table 2 against
stderr_has 'pipelines.txt:9'
echo 'no columns' >"$record"
table 2 against
stderr_has 'pipelines.txt:1'
rm "$record"
table 2 against
stderr_has 'pipelines.txt'

# tools/lab/run: a copy of it, a loader that only runs the program, and a program that tells what it was started with.
tree=$work/tree
mkdir -p "$tree/tools" "$work/lab/drivers/usr/lib64" "$work/user/build/tools/tessera"
cp "$SOURCE_ROOT/tools/setup.sh" "$tree/tools/"
cp -r "$SOURCE_ROOT/tools/lab" "$tree/tools/"
rm -f "$tree/tools/lab/pipelines.txt"
: >"$work/lab/drivers/complete"
cat >"$work/lab/drivers/usr/lib64/ld-linux-x86-64.so.2" <<'TEXT'
#!/bin/sh
while :; do
  case $1 in
  --inhibit-cache) shift ;;
  --*) shift 2 ;;
  *) exec "$@" ;;
  esac
done
TEXT
write_results
cat >"$work/user/build/tools/tessera/tessera" <<'TEXT'
#!/bin/sh
if [ "$AMDGPU_GPU_ID" = "$KILLED" ]; then
  kill -KILL $PPID
  exit 9
fi
echo "$TESSERA_BACKEND_PATH" >>"$STARTED"
cat "$TOLD" >>"$TESSERA_PIPELINE_STATISTICS"
TEXT
chmod +x "$work/user/build/tools/tessera/tessera" "$work/lab/drivers/usr/lib64/ld-linux-x86-64.so.2"

# lab CODE ARGUMENT...: tools/lab/run, started in $work/user.
lab()
{
  n_checks=$((n_checks + 1))
  expected=$1
  shift
  code=0
  rm -f "$work/started"
  (
    export TESSERA_LAB_FOLDER="$work/lab" STARTED="$work/started" TOLD="$results/amd-navi31.json" KILLED="${killed-}"
    cd "$work/user" && "$tree/tools/lab/run" "$@"
  ) >"$out" 2>"$err" || code=$?
  last="tools/lab/run $*"
  [ $code = "$expected" ] || failure "$last: exit code $code, expected $expected"
}

# Without a record nothing is compiled before that is told.
lab 2 --against --build build --chips navi31
stderr_has 'tools/lab/run --update'
check 'compiled for no record' test ! -e "$work/started"

# A build is where the user says, from where the user stands; the record is compared.
printf 'pipeline amd-navi31 amd-navi21\nsoftmax 16 16\nmatmul.tiled matmul_tiled 20 20\n' \
  >"$tree/tools/lab/pipelines.txt"
for build in build "$work/user/build"; do
  lab 0 --against --build "$build" --chips navi31
  stdout_has '2 compared on 1 chips, 0 failed'
  check "$last: the backends' folders" grep -q "^$work/user/build/backends/cpu:" "$work/started"
done

# What is recorded and made no more fails, unless programs were left out.
echo 'matmul_old 8 8' >>"$tree/tools/lab/pipelines.txt"
lab 1 --against --build build --chips navi31
stdout_has 'FAILED: matmul_old: recorded, but no longer made on amd-navi31'
lab 0 --against --build build --chips navi31 --ops softmax

# One chip's run is killed: that chip is told, and the other one compared.
killed=navi21
lab 1 --against --build build --chips navi21,navi31 --jobs 1 --ops softmax
stdout_has 'FAILED: amd-navi21: it was stopped before its program ended'
stdout_has '2 compared on 2 chips, 1 failed'
lab 1 --build build --chips navi21,navi31 --jobs 1
killed=

# tools/lab/fetch, with packages that are made up. It needs Debian's keys, and says so where they are not.
if [ ! -f /usr/share/keyrings/debian-archive-keyring.gpg ]; then
  finish
fi
mkdir "$work/bin"
cat >"$work/bin/apt-get" <<'TEXT'
#!/bin/sh
echo "$*" >>"$CALLS"
for word in "$@"; do
  case $word in
  Dir::Cache::archives=*) archives=${word#*=} ;;
  esac
done
case " $* " in
*' update '*) [ "$FAULT" != signal ] || kill -TERM $PPID ;;
*' --download-only '*) : >"$archives/mesa-vulkan-drivers_26_amd64.deb" ;;
*' download chromium-common'*)
  [ "$FAULT" != swiftshader ] || exit 100
  : >chromium-common_1.deb
  ;;
*' download '*) : >mesa-drm-shim_1.deb ;;
esac
TEXT
cat >"$work/bin/dpkg" <<'TEXT'
#!/bin/sh
[ "$1" = -x ] || exec echo amd64
mkdir -p "$3/usr/lib/x86_64-linux-gnu"
: >"$3/usr/lib/x86_64-linux-gnu/libnouveau_noop_drm_shim.so"
TEXT
cat >"$work/bin/dpkg-deb" <<'TEXT'
#!/bin/sh
cd "$WORK/chromium" && tar c ./usr
TEXT
printf '#!/bin/sh\n' >"$work/bin/dpkg-query" # nothing is installed
printf '#!/bin/sh\n[ "$2" != pkg-config ] || echo "  Candidate: 1"\n' >"$work/bin/apt-cache"
chmod +x "$work"/bin/*
mkdir -p "$work/chromium/usr/lib/chromium"
echo new >"$work/chromium/usr/lib/chromium/libvk_swiftshader.so"
echo new >"$work/chromium/usr/lib/chromium/vk_swiftshader_icd.json"
swiftshader=$work/cache/tessera/swiftshader

# fetch CODE FAULT ARGUMENT...
fetch()
{
  n_checks=$((n_checks + 1))
  expected=$1 fault=$2
  shift 2
  code=0
  rm -f "$work/calls"
  env PATH="$work/bin:$PATH" WORK="$work" CALLS="$work/calls" FAULT="$fault" XDG_CACHE_HOME="$work/cache" \
    TESSERA_LAB_FOLDER="$work/fetched" TESSERA_NO_INSTALL= "$tree/tools/lab/fetch" "$@" >"$out" 2>"$err" || code=$?
  last="tools/lab/fetch $*"
  [ $code = "$expected" ] || failure "$last: exit code $code, expected $expected"
  check "$last: a part is left" test -z "$(find "$work/fetched" "$swiftshader" -maxdepth 1 -name 'part.*')"
}

# What an earlier run left is cleared; a signal leaves nothing.
mkdir -p "$work/fetched/part.killed" "$swiftshader/part.killed"
touch -d '1 day ago' "$swiftshader/part.killed"
fetch 0 none
check 'no drivers' test -f "$work/fetched/drivers/complete"
check 'no SwiftShader' grep -q new "$swiftshader/vk_swiftshader_icd.json"
fetch 143 signal --again
check 'the drivers are lost' test -f "$work/fetched/drivers/complete"

# SwiftShader stays until there is a new one.
echo old >"$swiftshader/vk_swiftshader_icd.json"
fetch 2 swiftshader --again
stderr_has 'SwiftShader could not be fetched'
check 'SwiftShader is lost' grep -q old "$swiftshader/vk_swiftshader_icd.json"
fetch 0 none --again
check 'SwiftShader is the old one' grep -q new "$swiftshader/vk_swiftshader_icd.json"

# Packages that the stand-in for Intel's kernel takes are named, never installed.
fetch 2 none --intel
stderr_has 'apt-get install'
stderr_has ' ninja-build pkg-config python3-mako '
check 'packages were installed' test -z "$(grep -F ' install ' "$work/calls")"
finish
