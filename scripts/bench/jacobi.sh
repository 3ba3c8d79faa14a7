# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: MIT
# The part of bench.sh that measures the Jacobi solver of 05_halo_2d beside the
# same solver over NCCL, NVSHMEM and staged MPI; sourced by it. Uses its
# variables, and what is in common.sh.

# A run that hangs must not hold up the others.
jacobi_limit=120
jacobi_arguments=()

# Both modes of Wharf, and the peers that can be built here.
jacobi_build() {
    local name problem=$root/mpi_examples/05_halo_2d_problem.c
    build_wharf 05_halo_2d
    jacobi_programs=(kernel exchange)
    if [ "$cuda_here" = no ]; then
        echo "bench.sh: no GPU or no nvcc: Wharf's host backend alone"
        jacobi_programs=(exchange)
        return
    fi
    find_nvshmem || true
    build_peer peer_mpi_jacobi "$problem" -lz &
    build_peer peer_nccl_jacobi "$problem" -lz -lnccl &
    build_nvshmem peer_nvshmem_jacobi "$problem" -lz &
    wait
    for name in nccl:NCCL nvshmem:NVSHMEM mpi:MPI; do
        if [ -x "$build/peer_${name%:*}_jacobi" ]; then
            jacobi_programs+=("${name%:*}")
        else
            status_row jacobi - "${name%:*}" - absent 0 \
                "$(absent "${name#*:}" "peer_${name%:*}_jacobi")"
        fi
    done
}

# One program once, all sizes: name, ranks, how often.
jacobi_run() {
    local name=$1 ranks=$2 times=$3 log code=0
    local mpi=("${launcher[@]}" -n "$ranks") run=()
    shift 3
    log=$out/jacobi-$name-$ranks.txt
    case $name in
    kernel | exchange)
        run=("${mpi[@]}" "$build/mpi_examples/05_halo_2d" --mode "$name")
        ;;
    nvshmem)
        run=(env "$nvshmem_path" "${mpi[@]}" "$build/peer_nvshmem_jacobi")
        ;;
    *) run=("${mpi[@]}" "$build/peer_${name}_jacobi") ;;
    esac
    bench_run jacobi "$ranks-on-$ranks" "$name" 1 "$jacobi_limit" "$log" \
        "${run[@]}" --repeat "$times" "$@" "${jacobi_arguments[@]}" || code=$?
    case $name in
    kernel | exchange) [ $code -ne 1 ] || jacobi_failed=1 ;;
    esac
    [ $code -ne 2 ]
}

# Median of a program's runs, its efficiency against its own run of one rank
# (or that of mode kernel), and whether all fields are the same.
jacobi_table() {
    awk "$awk_median"'
    function middle(key) { return median_of(times[key]) }
    FNR == 1 {
        name = FILENAME
        sub(/.*\/jacobi-/, "", name)
        sub(/-[0-9]+\.txt$/, "", name)
        if (!(name in seen)) { seen[name] = 1; names[++programs] = name }
    }
    $1 !~ /^[0-9]+$/ || NF < 9 { next }
    {
        size = $1
        if (!(size in known)) { known[size] = 1; sizes[++count] = size }
        if ($3 > most) most = $3
        times[name, size, $3] = times[name, size, $3] " " $5
        steps[size] = $4
        if (!(size in crc)) crc[size] = $9
        if (crc[size] != $9) {
            printf "# %s on %d rank(s), %d: field %s, not %s\n", name, $3, \
                size, $9, crc[size]
            wrong = 1
        }
        runs++
    }
    END {
        for (s = 1; s <= count; s++) {
            size = sizes[s]
            printf "\n# %d x %d, %d steps, median of the runs; field %s\n",
                size, size, steps[size], crc[size]
            printf "#%-10s %11s %11s %9s %10s %9s\n", " program",
                "1 rank (s)", most " ranks (s)", "us/step", "efficiency",
                "x kernel"
            best = middle("kernel" SUBSEP size SUBSEP most)
            for (p = 1; p <= programs; p++) {
                one = middle(names[p] SUBSEP size SUBSEP 1)
                all = middle(names[p] SUBSEP size SUBSEP most)
                if (one < 0 && all < 0) continue
                printf " %-10s", names[p]
                printf one < 0 ? " %11s" : " %11.4f", one < 0 ? "-" : one
                printf all < 0 ? " %11s" : " %11.4f", all < 0 ? "-" : all
                if (all > 0) printf " %9.2f", all / steps[size] * 1e6
                if (all > 0 && one > 0)
                    printf " %8.1f %%", one / (all * most) * 100
                else if (all > 0)
                    printf " %10s", "-"
                if (all > 0 && best > 0) printf " %9.2f", all / best
                print ""
            }
        }
        if (wrong || !runs) exit 1
    }' "$@"
}

jacobi_json() {
    awk -v machine="$machine" -v gpus="$gpus" '
    BEGIN {
        printf "{\"command\": \"jacobi\", \"machine\": \"%s\", ", machine
        printf "\"gpus\": %d,\n \"results\": [", gpus
    }
    FNR == 1 {
        name = FILENAME
        sub(/.*\/jacobi-/, "", name)
        sub(/-[0-9]+\.txt$/, "", name)
    }
    $1 !~ /^[0-9]+$/ || NF < 9 { next }
    {
        printf "%s\n  {\"program\": \"%s\", \"rows\": %d, ", comma, name, $1
        printf "\"columns\": %d, \"ranks\": %d, \"steps\": %d, ", $2, $3, $4
        printf "\"seconds\": %s, \"residual\": %s, \"crc\": \"%s\"}", $5, $8, $9
        comma = ","
    }
    END { print "]}" }' "$@"
}

# Every variant of the kernel, in one process for each number of ranks.
jacobi_variants() {
    local ranks log
    for ranks in "${counts[@]}"; do
        log=$out/jacobi-variants-$ranks.txt
        jacobi_run kernel "$ranks" 2 --variant all --iterations 500 "$@"
        mv "$out/jacobi-kernel-$ranks.txt" "$log"
        awk '$1 == "#" { for (i = 1; i < NF; i++)
                if ($i == "variant") { how = $(i + 1); sub(/,/, "", how) } }
            $1 ~ /^[0-9]+$/ { printf "%-10s %s\n", how, $0 }' "$log" |
            sort -k2,2n -k7,7n | tee "$out/jacobi-variants-$ranks.sorted.txt"
    done
}

jacobi_main() {
    local counts=("${gpu_counts[@]}") sizes=(--size 16384 --size 4096)
    local name ranks times logs=()
    jacobi_failed=0
    [ "$quick" = no ] || jacobi_limit=60
    rm -f "$out"/jacobi-*
    status_forget jacobi
    jacobi_build
    if [ "$cuda_here" = no ]; then
        counts=(1 2)
        sizes=(--size 1024 --iterations 200)
    elif [ "$gpus" -lt 2 ]; then
        echo "bench.sh: one GPU: one rank"
        status_row jacobi 2-on-2 all - 'left out' 0 'needs two GPUs'
    fi
    if [ "$variants" = all ]; then
        jacobi_variants "${sizes[@]}"
        return
    fi
    [ "$variants" = default ] || jacobi_arguments=(--variant "$variants")
    for name in "${jacobi_programs[@]}"; do
        for ranks in "${counts[@]}"; do
            # Of a peer alone a single figure will do.
            times=$repeat
            [ "$ranks" -gt 1 ] || [ "$name" = kernel ] || times=1
            ! jacobi_run "$name" "$ranks" "$times" "${sizes[@]}" ||
                logs+=("$out/jacobi-$name-$ranks.txt")
        done
    done
    machine_describe 2
    cp "$out/machine.txt" "$out/jacobi.txt"
    if [ ${#logs[@]} -eq 0 ]; then
        fail "jacobi: nothing could be run"
    fi
    jacobi_table "${logs[@]}" >>"$out/jacobi.txt" || jacobi_failed=1
    jacobi_json "${logs[@]}" >"$out/jacobi.json"
    verdict $jacobi_failed "$out/jacobi.txt"
}
