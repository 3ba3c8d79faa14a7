#!/bin/bash
# SPDX-License-Identifier: MIT
# hosts_end.sh TWO_HOSTS: two_hosts.sh leaves no process behind, and so no
# namespace, however it ends; and it answers with the program's exit code.
set -u
two_hosts=$1
export HOSTS_END_MARK=$$-$RANDOM$RANDOM

# Processes of this run are known by their environment.
left() {
    local file
    grep -lszx "HOSTS_END_MARK=$HOSTS_END_MARK" /proc/[0-9]*/environ |
        while read -r file; do
            tr '\0' ' ' <"${file%environ}cmdline" && echo
        done 2>/dev/null | grep -v 'hosts_end\.sh\|^grep \|^ *$'
}

wrong() {
    echo "$1"
    exit 1
}

# Nothing left within two seconds.
gone() { # WHEN
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        [ -n "$(left)" ] || return 0
        sleep 0.2
    done
    left
    wrong "left behind after $1, see above"
}

bash "$two_hosts" -n 1 true >/dev/null
code=$?
[ $code -ne 77 ] || exec bash "$two_hosts" -n 1 true
[ $code -eq 0 ] || wrong "true ended with $code"
gone "its end"

bash "$two_hosts" -n 1 sh -c 'exit 3' >/dev/null 2>&1
code=$?
[ $code -eq 3 ] || wrong "exit 3 ended with $code"
gone "a failure"

for signal in TERM KILL; do
    bash "$two_hosts" -n 1 sleep 600 >/dev/null 2>&1 &
    script=$!
    # It has really begun.
    for _ in $(seq 50); do
        left | grep -q '^sleep 600' && break
        sleep 0.1
    done
    left | grep -q '^sleep 600' || wrong "nothing started before SIG$signal"
    kill -"$signal" "$script"
    wait "$script" 2>/dev/null
    gone "SIG$signal"
done
echo "nothing left behind"
