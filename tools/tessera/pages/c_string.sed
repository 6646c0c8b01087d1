# SPDX-License-Identifier: Apache-2.0
# A text as C string literals, one a line.
s/[\\"]/\\&/g
s/^/"/
s/$/\\n"/
