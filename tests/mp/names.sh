#!/bin/sh
# SPDX-License-Identifier: MIT
# names.sh COMMAND...: kills the job that COMMAND starts, twice, looks for what
# it left in /dev/shm and /tmp, and starts it again, which must work.
names() {
    find /dev/shm /tmp -mindepth 1 -maxdepth 1 -iname '*wharf*' 2>/dev/null | sort
}

# Other jobs that plant names wait; t_names takes the same lock.
if command -v flock >/dev/null && exec 9</dev/shm; then
    flock 9
fi
before=$(names)
for round in 1 2; do
    if "$@" killed 9<&- >/dev/null 2>&1; then
        echo "round $round: the job was to be killed, and ended well"
        exit 1
    fi
done
after=$(names)
exec 9<&-
if [ "$before" != "$after" ]; then
    printf 'names before:\n%s\nnames after:\n%s\n' "$before" "$after"
    exit 1
fi
exec "$@"
