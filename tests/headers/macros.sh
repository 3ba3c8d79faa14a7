#!/bin/sh
# SPDX-License-Identifier: MIT
#
# macros.sh TEST DIRECTORY: every macro that the headers in DIRECTORY define
# and keep is used in the source file TEST; guards need no test.
set -eu
LC_ALL=C
export LC_ALL
sed -n 's/^#define \(WHARF_[A-Z0-9_]*\).*/\1/p' "$2"/*.h | sort -u | {
    missing=0
    while read -r macro; do
        case $macro in
        WHARF_*_H) continue ;;
        esac
        # Helpers that a header defines and undefines again.
        ! grep -q "^#undef $macro\$" "$2"/*.h || continue
        grep -qw "$macro" "$1" || {
            echo "$macro is not expanded in $1"
            missing=1
        }
    done
    exit $missing
}
