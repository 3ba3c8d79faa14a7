#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# two_hosts.sh [-n RANKS] PROGRAM [ARGUMENT...]: runs an MPI program on two
# hosts that live inside this machine, RANKS (2) on each.
#
# A host is a set of namespaces: network, host name, IPC, mounts, with a
# /dev/shm and an /etc/hosts of its own. The two, wharf-a and wharf-b, are joined
# by a veth pair; `mpirun` runs on wharf-a and reaches wharf-b through an agent
# in the place of ssh. So what must go by network does, and shared memory does
# not reach across.
#
# Needs root or user namespaces, iproute2, util-linux and Open MPI, whose
# launcher is mpirun, or MPIEXEC from the environment. Exit code: the program's;
# 77 with a reason where hosts cannot be made; 2 for wrong usage.
#
# Why not MPICH: Hydra gets to the second host by the same agent (-launcher ssh
# -launcher-exec), and with a /sys of the host's own UCX finds the veth pair; but
# then MPI_Finalize of MPICH 4.0 on UCX 1.13 stays in UCX's TCP for good in one
# of two to six runs, that of a program that knows MPI alone as well.
#
# Nothing is left behind however it ends. All of it lives in one PID namespace
# whose first process dies with this script, and with it, by the kernel, every
# process in there and both networks. No namespace has a name, and no file is
# written but to the hosts' own tmpfs.
set -u -o pipefail

self=${BASH_SOURCE[0]}
network=10.77.0
mpirun=${MPIEXEC:-mpirun}

skip() {
    echo "skipped: $1"
    exit 77
}

# In the place of ssh: enters wharf-b and runs what it is given, as one shell
# line, as ssh would. Open MPI may put options before the name of the host.
enter() {
    while [ $# -gt 0 ] && [ "${1#-}" != "$1" ]; do shift; done
    [ "${1:-}" = wharf-b ] || {
        echo "two_hosts.sh: no way to host '${1:-}'" >&2
        exit 1
    }
    shift
    exec nsenter --target "$TWO_HOSTS_SECOND" --net --uts --ipc --mount \
        --wd="$PWD" sh -c "$*"
}

# Host name, /etc/hosts and /dev/shm of the calling process's namespaces. The
# file that is bound over /etc/hosts lies in a tmpfs that the next one hides.
# The launcher looks for its agent on both hosts.
furnish() { # NAME
    hostname "$1" &&
        mount -t tmpfs -o size=1m wharf-hosts /dev/shm &&
        printf '%s\n' "127.0.0.1 localhost" "$network.1 wharf-a" \
            "$network.2 wharf-b" >/dev/shm/hosts &&
        mount --bind /dev/shm/hosts /etc/hosts &&
        mount -t tmpfs -o size=512m wharf-shm /dev/shm &&
        printf '#!/usr/bin/env bash\nexec bash %q --enter "$@"\n' "$self" \
            >/dev/shm/agent && chmod 755 /dev/shm/agent &&
        ip link set lo up
}

# The second host: furnished, then there until the first one has gone.
second() {
    furnish wharf-b && echo ready && exec sleep infinity
}

# The first host, process 1 of the PID namespace.
first() { # RANKS PROGRAM...
    local ranks=$1 ready='' answer
    shift
    furnish wharf-a 2>/dev/null || skip "no right to set a host up"
    exec {answer}< <(exec unshare --net --uts --ipc --mount \
        bash "$self" --second 2>/dev/null)
    export TWO_HOSTS_SECOND=$!
    read -r ready <&"$answer"
    [ "$ready" = ready ] || skip "no right to set a second host up"
    ip link add wharf-a type veth peer name wharf-b netns "$TWO_HOSTS_SECOND" \
        2>/dev/null || skip "the kernel has no veth pair to give"
    ip address add "$network.1/24" dev wharf-a && ip link set wharf-a up &&
        nsenter --target "$TWO_HOSTS_SECOND" --net sh -c \
            "ip address add $network.2/24 dev wharf-b && ip link set wharf-b up" ||
        skip "the veth pair cannot be set up"

    # The launcher's own files go with the hosts.
    TMPDIR=/dev/shm "$mpirun" --allow-run-as-root --oversubscribe \
        --host "wharf-a:$ranks,wharf-b:$ranks" -n $((2 * ranks)) --map-by slot \
        --mca plm rsh --mca plm_rsh_agent /dev/shm/agent \
        --mca oob_tcp_if_include "$network.0/24" \
        --mca btl_tcp_if_include "$network.0/24" \
        -x TMPDIR "$@" </dev/null &
    wait $!
    exit
}

usage() {
    echo "usage: two_hosts.sh [-n RANKS-PER-HOST] PROGRAM [ARGUMENT...]" >&2
    exit 2
}

case ${1:-} in
--enter) shift && enter "$@" ;;
--first) shift && first "$@" ;;
--second) second ;;
esac

ranks=2
while [ $# -gt 0 ]; do
    case $1 in
    -n)
        ranks=${2:-}
        case $ranks in '' | *[!0-9]* | 0) usage ;; esac
        shift 2
        ;;
    -*) usage ;;
    *) break ;;
    esac
done
[ $# -gt 0 ] || usage

PATH=$PATH:/usr/sbin:/sbin
for tool in ip mount unshare nsenter setpriv realpath "$mpirun"; do
    command -v "$tool" >/dev/null || skip "$tool is not installed"
done
# shellcheck source=scripts/launcher.sh
. "$(dirname "$self")/launcher.sh"
is_open_mpi "$mpirun" ||
    skip "not by Open MPI's launcher: between such hosts MPICH 4.0 with UCX hangs in MPI_Finalize now and then"
spaces=(--net --uts --ipc --mount --pid --fork --kill-child --mount-proc)
[ "$(id -u)" -eq 0 ] || spaces=(--user --map-root-user "${spaces[@]}")
self=$(realpath "$self")
unshare "${spaces[@]}" true 2>/dev/null ||
    skip "namespaces are not allowed here (root, or user namespaces, are needed)"

# What is between this script and process 1 ignores signals; it dies with its
# parent, and process 1 with it.
setpriv --pdeathsig KILL unshare "${spaces[@]}" \
    bash "$self" --first "$ranks" "$@" </dev/null &
world=$!
end() {
    kill -KILL "$world" 2>/dev/null
    wait "$world" 2>/dev/null
    exit "$1"
}
trap 'end 129' HUP
trap 'end 130' INT
trap 'end 143' TERM
wait "$world"
