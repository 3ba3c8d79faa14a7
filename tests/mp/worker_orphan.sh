#!/bin/sh
# SPDX-License-Identifier: MIT
# worker_orphan.sh HOW COMMAND...: starts the job of t_worker_orphan, lets it
# end as HOW says (killed, exited, aborted: by a rank itself; launcher: its
# launcher is killed), and looks for workers that are still there.
how=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# 0: still there. A zombie that waits for init counts as gone.
alive() {
    state=$(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -c1)
    [ -n "$state" ] && [ "$state" != Z ]
}

"$@" "$how" >"$log" 2>&1 &
job=$!
seconds=0
while alive "$job" && [ "$(grep -c '^ready' "$log")" -lt 2 ]; do
    sleep 0.1
    seconds=$((seconds + 1))
    [ "$seconds" -lt 300 ] || break
done
if [ "$how" = launcher ]; then
    kill -9 "$job"
    # The ranks of some launchers (Open MPI 5) go on without it.
    sleep 1
    for rank in $(sed -n 's/^rank \([0-9]*\)$/\1/p' "$log"); do
        ! alive "$rank" || kill -9 "$rank"
    done
fi
wait "$job" 2>/dev/null

if grep -q 'skipped:' "$log"; then
    grep -m 1 'skipped:' "$log"
    exit 77
fi
pids=$(sed -n 's/^pid \([0-9]*\)$/\1/p' "$log")
count=$(echo "$pids" | wc -w)
if [ "$count" -ne 10 ]; then
    echo "$count processes were started, not 10:"
    cat "$log"
    exit 1
fi
tenths=0
while :; do
    left=
    for pid in $pids; do
        ! alive "$pid" || left="$left $pid"
    done
    [ -n "$left" ] || break
    tenths=$((tenths + 1))
    if [ "$tenths" -ge 100 ]; then
        echo "still there after 10 s:$left"
        # shellcheck disable=SC2086
        ps -o pid,ppid,stat,args -p "$(echo $left | tr ' ' ,)"
        # shellcheck disable=SC2086
        kill -9 $left
        exit 1
    fi
    sleep 0.1
done
echo "$how: $count processes are gone after $tenths tenths of a second"
