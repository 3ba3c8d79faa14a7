#!/bin/sh
# SPDX-License-Identifier: MIT
#
# pages.sh SOURCE OUTPUT VERSION: the reference of the public headers, made by
# Doxygen: OUTPUT/html, and OUTPUT/man3 with a page for each call. Fails if
# Doxygen has anything to say against a header (it is printed, with its place),
# or if a public call has no page. 77: doxygen or perl is missing.
set -eu
LC_ALL=C
export LC_ALL

source=$1 output=$2 version=$3
for tool in doxygen perl; do
    command -v "$tool" >/dev/null || {
        echo "skipped: $tool is needed (Debian: $tool)"
        exit 77
    }
done

rm -rf "$output"
mkdir -p "$output/man3"
sed -e "s|@VERSION@|$version|" -e "s|@OUTPUT@|$output|" -e "s|@SOURCE@|$source|" \
    "$source/scripts/docs/Doxyfile.in" >"$output/Doxyfile"
code=0
doxygen "$output/Doxyfile" >"$output/doxygen.log" 2>&1 || code=$?
if [ -s "$output/warnings.txt" ] || [ -s "$output/doxygen.log" ] || [ $code -ne 0 ]; then
    awk '!seen[$0]++' "$output/warnings.txt" "$output/doxygen.log" >&2
    echo "doxygen is not content with the headers" >&2
    exit 1
fi
perl "$source/scripts/docs/call_pages.pl" "$output/xml" "$version" "$output/man3"

# By the same reading of the headers as that which finds calls not exported.
missing=$(cd "$source" && bash scripts/check.sh --declared | while read -r call; do
    [ -s "$output/man3/$call.3" ] || echo "$call"
done)
if [ -n "$missing" ]; then
    echo "these calls have no page: $missing" >&2
    exit 1
fi
rm -rf "$output/xml"
