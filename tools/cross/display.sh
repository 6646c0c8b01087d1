# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh disable=SC2154 # sourced by tools/cross/check and tools/cross/bundle.sh
#
# Wine reaches Vulkan's drivers only where it has a display.

# start_display FOLDER: starts one without a screen, and has Vulkan find Mesa's driver for CPUs alone. Writes in FOLDER.
# Until stop_display, or the script's end.
start_display()
{
  mkfifo "$1/display.new" 2>/dev/null || :
  Xvfb -displayfd 3 -nolisten tcp -screen 0 640x480x24 3<>"$1/display.new" >/dev/null 2>&1 </dev/null &
  display_process=$!
  trap stop_display EXIT
  trap 'exit 1' HUP INT TERM
  read -r display <"$1/display.new"
  rm "$1/display.new"
  export DISPLAY=":$display"
  VK_ICD_FILENAMES=$(printf '%s\n' /usr/share/vulkan/icd.d/lvp_icd*.json | head -n 1)
  export VK_ICD_FILENAMES
}

# Ends the display, and what Wine has left running in $root.
stop_display()
{
  trap - EXIT
  WINEPREFIX="$root/prefix" wineserver -k >/dev/null 2>&1 || :
  kill "$display_process" 2>/dev/null || :
}
