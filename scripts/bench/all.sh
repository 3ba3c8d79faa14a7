# shellcheck shell=bash disable=SC2154,SC2034
# SPDX-License-Identifier: MIT
# bench.sh all: every part in one go, bounded in time; sourced by it. A part
# that fails, or has no time left, is a row that says so. Uses the variables of
# bench.sh, and what is in common.sh. many_gpus.sh runs its own parts by it.

all_parts=(attach sync copy jacobi latency ring zero-copy worker)

# Seconds of a part: in full, and by --quick, of which all must end in 8 minutes.
all_limit() { # PART
    case $quick-$1 in
    no-*) echo 600 ;;
    yes-sync) echo 125 ;;
    yes-copy) echo 115 ;;
    yes-attach) echo 75 ;;
    yes-jacobi) echo 60 ;;
    yes-zero-copy | yes-ring | yes-worker) echo 20 ;;
    yes-*) echo 15 ;;
    esac
}

# All peers at once, before the clock of the first part runs. What cannot be
# built shows when its part looks for it.
all_build() {
    local problem=$root/mpi_examples/05_halo_2d_problem.c name
    build_wharf wharf-bench wharf-info 05_halo_2d 07_frame_filter
    [ "$cuda_here" = yes ] || return 0
    echo "bench.sh: building the peers"
    for name in copy_rate put_cost copy_move sync_latency exchange_latency; do
        build_over_wharf "$name" &
    done
    build_peer ipc_by_hand -lcuda &
    build_peer peer_nccl_copy -lnccl &
    build_peer peer_nccl_jacobi "$problem" -lz -lnccl &
    build_peer peer_mpi_jacobi "$problem" -lz &
    for name in peer_nvshmem_sync peer_nvshmem_copy; do
        build_nvshmem "$name" &
    done
    build_nvshmem peer_nvshmem_jacobi "$problem" -lz &
    wait
}

# ---- Rows -------------------------------------------------------------------

# The first words of the logs' names.
all_logs='attach|sync|copy|latency|ring|zero-copy|jacobi|worker|barrier|notify|matrix'

# Every figure of every log: part, shape, program, run, op, bytes, median (us),
# wrong bytes; tabs between.
all_rows() {
    local logs=()
    mapfile -t logs < <(find "$out" -maxdepth 1 -name '*-*.txt' | sort |
        grep -E "/($all_logs)-[^/]*[0-9]\\.txt\$")
    [ ${#logs[@]} -gt 0 ] || return 0
    awk -v ranks="$ranks" -v gpus="$gpus" '
    function emit(op, bytes, median, bad) {
        printf "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%d\n", part, shape, program, run,
            op, bytes, median, bad
    }
    FNR == 1 {
        file = FILENAME
        sub(/.*\//, "", file); sub(/\.txt$/, "", file)
        run = file; sub(/.*-/, "", run)
        sub(/-[0-9]+$/, "", file)
        part = file ~ /^zero-copy/ ? "zero-copy" : file
        if (part != "zero-copy") sub(/-.*/, "", part)
        rest = substr(file, length(part) + 2)
        on = gpus > 0 ? gpus : "host"
        shape = ranks "-on-" on; program = "wharf"
        if (part == "attach" && rest !~ /^[0-9]+-on-/) program = rest
        else if (part == "zero-copy") shape = "1-on-" (gpus > 0 ? 1 : "host")
        else if (part == "ring") shape = (rest + 1) "-on-" on
        else if (part == "latency" && rest ~ /^[0-9]+$/)
            shape = rest "-on-" on
        else if (part == "jacobi") { program = rest; shape = run "-on-" run }
        else {
            # Names of programs may have hyphens of their own.
            match(rest, /^[0-9]+-on-[0-9a-z]+(-mps)?/)
            shape = substr(rest, 1, RLENGTH)
            program = substr(rest, RLENGTH + 2)
        }
        op = ""; line = 0
    }
    $1 == "#" && $2 == "op" { op = $3; next }
    $1 ~ /^#/ { next }
    part == "jacobi" && $1 ~ /^[0-9]+$/ && NF >= 9 {
        run = ++line; emit("step", $1 * $2 * 4, $6, 0); next
    }
    NF >= 6 && op != "" {
        name = op
        if (part == "latency" || op == "put-pair") name = op " " $8 " " $9 " " $10
        emit(name, $1, $3, $6)
    }' "${logs[@]}"
}

# ---- Text and JSON ----------------------------------------------------------

all_status_table() {
    echo
    echo '# what ran: part, shape, program, run, state, seconds, reason'
    [ -e "$out/status.tsv" ] || return 0
    awk -F '\t' '{ printf " %-10s %-12s %-18s %4s  %-9s %5s  %s\n", $1, $2, $3,
        $4, $5, $6, $7 }' "$out/status.tsv" | sed 's/ *$//'
}

# One line a figure and program: median of the runs, least and most of them.
all_figures() { # SORTED ROWS
    awk -F '\t' '
    function flush(    i, j, t, middle) {
        if (n == 0) return
        for (i = 2; i <= n; i++)
            for (j = i; j > 1 && v[j - 1] > v[j]; j--) {
                t = v[j]; v[j] = v[j - 1]; v[j - 1] = t
            }
        middle = (v[int((n + 1) / 2)] + v[int(n / 2) + 1]) / 2
        printf " %-9s %-11s %-38s %11d %-12s %11.2f %11.2f %11.2f %4d %5d\n",
            f[1], f[2], f[3], f[4], f[5], middle, v[1], v[n], n, bad
        n = bad = 0
    }
    BEGIN {
        print "\n# figures: median of the runs, least and most of their medians"
        printf "#%-9s %-11s %-38s %11s %-12s %11s %11s %11s %4s %5s\n", "part",
            "shape", "operation", "bytes", "program", "median", "least", "most",
            "runs", "bad"
        printf "#%-9s %-11s %-38s %11s %-12s %11s %11s %11s %4s %5s\n", "", "",
            "", "(B)", "", "(us)", "(us)", "(us)", "", "(B)"
    }
    {
        key = $1 FS $2 FS $5 FS $6 FS $3
        if (key != last) {
            flush()
            f[1] = $1; f[2] = $2; f[3] = $5; f[4] = $6; f[5] = $3
            last = key
        }
        v[++n] = $7 + 0; bad += $8; wrong += $8
    }
    END { flush(); printf "# wrong bytes: %d\n", wrong }' "$1"
}

all_json() { # SORTED ROWS
    awk -F '\t' -v machine="$machine" -v gpus="$gpus" -v quick="$quick" '
    function text(s) { gsub(/["\\]/, "\\\\&", s); return "\"" s "\"" }
    BEGIN {
        printf "{\"command\": \"all\", \"machine\": %s, ", text(machine)
        printf "\"gpus\": %d, \"quick\": %s,\n \"status\": [", gpus,
            quick == "yes" ? "true" : "false"
    }
    FILENAME ~ /status\.tsv$/ {
        printf "%s\n  {\"part\": %s, \"shape\": %s, \"program\": %s, ", comma,
            text($1), text($2), text($3)
        printf "\"run\": %s, \"state\": %s, \"seconds\": %d, \"reason\": %s}",
            $4 ~ /^[0-9]+$/ ? $4 : "null", text($5), $6, text($7)
        comma = ","
        next
    }
    !opened++ { printf "],\n \"results\": ["; comma = "" }
    {
        printf "%s\n  {\"part\": %s, \"shape\": %s, \"program\": %s, ", comma,
            text($1), text($2), text($3)
        printf "\"run\": %d, \"op\": %s, \"bytes\": %d, ", $4, text($5), $6
        printf "\"med_us\": %s, \"bad_bytes\": %d}", $7, $8
        comma = ","
    }
    END {
        if (!opened) printf "],\n \"results\": ["
        print "]}"
    }' "$out/status.tsv" "$1"
}

# ---- All --------------------------------------------------------------------

# One part in a shell of its own, so that what ends it ends nothing else.
all_part() { # PART
    local part=$1 name=${1/-/_} most left code=0
    # Where time is short, every part that is still to come gets its share.
    most=$(all_limit "$part")
    left=$((all_end - SECONDS))
    [ "$all_wanted" -le "$left" ] || most=$((most * left / all_wanted))
    all_wanted=$((all_wanted - $(all_limit "$part")))
    if [ "$most" -lt 5 ]; then
        status_row "$part" - all - 'left out' 0 'the time of the whole run was used up'
        return 0
    fi
    echo "${0##*/}: $part, at most $most s"
    (
        trap - EXIT
        part_end=$((SECONDS + most))
        "${name}_main" >"$out/$part.log" 2>&1
        failed=${name}_failed
        exit "${!failed}"
    ) || code=$?
    if [ $code -ne 0 ]; then
        grep -E "^[a-z_]+\.sh: " "$out/$part.log" | tail -n 2 >&2
        all_failed=1
        awk -F '\t' -v part="$part" '$1 == part && $5 == "failed" { found = 1 }
            END { exit !found }' "$out/status.tsv" 2>/dev/null ||
            status_row "$part" - all - failed 0 \
                "$(tail -n 1 "$out/$part.log" | cut -c 1-140)"
    fi
}

# The parts asked for; what others left in an earlier run stays.
all_choose() {
    local part
    chosen=("${all_parts[@]}")
    [ -z "$only" ] || IFS=, read -r -a chosen <<<"$only"
    for part in "${chosen[@]}"; do
        [[ " ${all_parts[*]} " == *" $part "* ]] ||
            fail "there is no part '$part'; parts: ${all_parts[*]}" 2
    done
    [ -n "$only" ] || rm -f "$out"/status.tsv "$out"/rows.tsv
    touch "$out/status.tsv"
}

all_run() {
    local part
    all_wanted=0
    for part in "${chosen[@]}"; do
        all_wanted=$((all_wanted + $(all_limit "$part")))
    done
    for part in "${chosen[@]}"; do
        status_forget "$part"
        all_part "$part"
    done
}

# Text and JSON of everything that lies there.
all_write() { # NAME
    all_rows >"$out/rows.tsv" || all_failed=1
    sort -t "$(printf '\t')" -k1,1 -k2,2 -k5,5 -k6,6n -k3,3 -k4,4n \
        "$out/rows.tsv" >"$out/rows.sorted"
    machine_describe 2
    {
        echo "# ${0##*/} $1, $(date +%Y-%m-%d), $SECONDS s, quick: $quick"
        cat "$out/machine.txt"
        all_status_table
        all_figures "$out/rows.sorted"
    } >"$out/$1.txt"
    all_json "$out/rows.sorted" >"$out/$1.json" || all_failed=1
    rm -f "$out/rows.sorted"
    # No wrong byte in no figure at all is no success, where there should be any.
    case ,$(IFS=, && echo "${chosen[*]}"), in
    *,attach,* | *,sync,* | *,copy,* | *,latency,* | *,ring,* | *,zero-copy,* | \
        *,jacobi,* | *,signals,* | *,copies,*)
        [ -s "$out/rows.tsv" ] || all_failed=1
        ;;
    esac
    grep -q '^# wrong bytes: 0$' "$out/$1.txt" || all_failed=1
}

all_main() {
    all_failed=0
    # The whole, building included, of 8 minutes; the text and plots take some.
    all_end=1000000
    [ "$quick" = no ] || all_end=450
    all_choose
    all_build
    all_run
    all_write all
    verdict "$all_failed" "$out/all.txt"
    if command -v gnuplot >/dev/null; then
        bash "$root/scripts/plots.sh" "$out" || all_failed=1
    else
        echo "bench.sh: no gnuplot here: scripts/plots.sh $out plots elsewhere"
    fi
}
