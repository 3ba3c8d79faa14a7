#!/bin/sh
# SPDX-License-Identifier: MIT
# fails.sh CODE COMMAND...: ends with 0 if COMMAND ends with CODE, else with 1.
# For ranks that are to fail: a launcher takes seconds to end a job that did.
code=$1
shift
"$@"
ended=$?
[ "$ended" -eq "$code" ] && exit 0
echo "$1 ended with $ended, not with $code" >&2
exit 1
