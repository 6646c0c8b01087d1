#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# golden.sh CASE DEVICE: holds a device against a recorded case; CASE speech: against all models of speech. Exit code 77
# (skipped) without the device. DEVICE may be several, A,B: the model is split over them.
# DEVICE swiftshader is vulkan:0 through the driver that TESSERA_SWIFTSHADER_ICD names.
# TESSERA_GOLDENS names another folder of recordings of the same form; a case that it lacks is skipped.
set -eu
case_name=$1
device=$2
root=${TESSERA_GOLDENS:-$SOURCE_ROOT/tests/data/goldens}
if [ "$case_name" = speech ]; then
  set -- "$root"/speech/models/*
else
  set -- "$root/models/$case_name"
fi
for folder; do
  if [ -n "${TESSERA_GOLDENS:-}" ] && [ ! -d "$folder" ]; then
    echo "skipped: there is no $folder"
    exit 77
  fi
done
if [ "$device" = swiftshader ]; then
  if [ -z "${TESSERA_SWIFTSHADER_ICD:-}" ]; then
    echo "skipped: TESSERA_SWIFTSHADER_ICD names no driver"
    exit 77
  fi
  export VK_ICD_FILENAMES="$TESSERA_SWIFTSHADER_ICD"
  device=vulkan:0
fi
names=$("$TESSERA" devices --names) || true
split=
for one in $(echo "$device" | tr , ' '); do
  case $one in
  *:*) wanted=$one ;;
  *) wanted=$one:0 ;;
  esac
  if ! echo "$names" | grep -qx "$wanted"; then
    echo "skipped: there is no device $one"
    exit 77
  fi
  [ "$one" = "$device" ] || split=--split
done
for folder; do
  # A model that is stored in another way gives the same results.
  recorded=${folder%_sharded}
  "$TESSERA" golden "$folder" --recorded "$recorded" --device "$device" $split
  # So does a T5 as transformers 5 writes it: other keys of config.json say the same.
  if [ "$case_name" = t5_v1_1 ] && grep -q '"tie_word_embeddings": false' "$folder/config.json"; then
    anew=$(mktemp -d)
    trap 'rm -r "$anew"' EXIT
    cp "$folder"/*.safetensors "$folder/generation_config.json" "$anew"
    sed 's/"tie_word_embeddings": false/"tie_word_embeddings": true, "scale_decoder_outputs": false/' \
      "$folder/config.json" >"$anew/config.json"
    "$TESSERA" golden "$anew" --recorded "$recorded" --device "$device" $split
    trap - EXIT
    rm -r "$anew"
  fi
  # A tolerance that nothing meets is reported as a difference, whatever the device.
  [ "$device" = cpu:0 ] || [ "$device" = cpu ] || continue
  if "$TESSERA" golden "$folder" --recorded "$recorded" --device "$device" $split --tolerance 0 --scores 0 --json \
    >/dev/null; then
    echo "a tolerance of 0 should have been missed"
    exit 1
  fi
done
