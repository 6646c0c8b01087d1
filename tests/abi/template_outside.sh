#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Compiles the template outside the tree, with one compiler call and the one header, and runs a test with the result.
# Usage: template_outside.sh BACKEND_H TEMPLATE_C TEST COMPILER...
set -eu
header=$(realpath "$1") source=$(realpath "$2") test=$(realpath "$3")
shift 3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/include/tessera"
cp "$header" "$folder/include/tessera/"
cp "$source" "$folder/"
cd "$folder"
"$@" -std=c11 -Wall -Wextra -pedantic -Werror -shared -fPIC -Iinclude -o libtessera-backend-template.so template.c
exported=$(nm -D --defined-only libtessera-backend-template.so | awk '$2 != "A" { print $3 }')
test "$exported" = tessera_backend_query || { echo "it exports $exported" >&2; exit 1; }
TESSERA_TEST_TEMPLATE=$folder/libtessera-backend-template.so "$test"
