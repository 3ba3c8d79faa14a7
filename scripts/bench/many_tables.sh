# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: MIT
# The tables of many_gpus.sh, which sources it: out of the logs of its parts, and
# of rows.tsv, where every figure is a line.

# ---- Parts ------------------------------------------------------------------

# Median of the medians of logs of one command: bytes, us, for each operation.
tool_medians() { # OPERATION LOG...
    local op=$1
    shift
    awk -v wanted="$op" "$awk_median"'
    $1 == "#" && $2 == "op" { op = $3; next }
    $1 ~ /^#/ || NF < 6 || op != wanted { next }
    { medians[$1] = medians[$1] " " $3 }
    END {
        for (size in medians)
            printf "%s %.2f\n", size, median_of(medians[size])
    }' "$@" | sort -n
}

# Each pair by the way that Wharf chooses, of the copy engine's own rate: the
# best round of each, for both are mostly the same engine.
copies_table() {
    awk '
    $1 == "#" && $2 == "op" { op = $3; next }
    $1 ~ /^#/ || NF < 9 || op != "put-pair" { next }
    {
        who = FILENAME ~ /-engine-[0-9]+\.txt$/ ? "engine" : "wharf"
        key = $1 " " $8
        if (!((who, key) in best) || $2 < best[who, key]) best[who, key] = $2
        path[key] = $9
        if (!(key in known)) { known[key] = 1; keys[++n] = key }
    }
    END {
        print "# put of every pair, of the copy engine (best round of each)"
        printf "#%12s %7s %-14s %10s %10s %8s\n", "bytes", "pair", " path",
            "Wharf", "engine", "%"
        printf "#%12s %7s %-14s %10s %10s %8s\n", "(B)", "", "", "(GB/s)",
            "(GB/s)", ""
        for (i = 1; i <= n; i++) {
            split(keys[i], f, " ")
            w = best["wharf", keys[i]]; e = best["engine", keys[i]]
            if (w <= 0 || e <= 0) continue
            sub(/,/, "", path[keys[i]])
            printf " %12d %7s %-14s %10.2f %10.2f %8.2f\n", f[1], f[2],
                " " path[keys[i]], f[1] / w / 1e3, f[1] / e / 1e3, e / w * 100
            if (least == "" || e / w < least) least = e / w
        }
        if (least != "") printf "# least of all: %.2f %%\n", least * 100
    }' "$out"/matrix-*.txt
}

# Speedup and efficiency by number of GPUs.
jacobi_scaling() {
    [ -s "$out/jacobi.json" ] || return 0
    sed -n 's/.*"program": "\([a-z]*\)", "rows": \([0-9]*\), .*"ranks": \([0-9]*\), "steps": \([0-9]*\), "seconds": \([0-9.e+-]*\),.*/\1 \2 \3 \4 \5/p' \
        "$out/jacobi.json" | awk '
    {
        key = $1 SUBSEP $2 SUBSEP $3
        if (!(key in best) || $5 < best[key]) best[key] = $5
        if (!(key in known)) { known[key] = 1; keys[++n] = key }
    }
    END {
        print "# Jacobi, best run of each; efficiency beside the own one on one GPU"
        printf "#%-10s %8s %6s %10s %10s %12s\n", " program", "grid", "GPUs",
            "time", "speedup", "efficiency"
        printf "#%-10s %8s %6s %10s %10s %12s\n", "", "(side)", "", "(s)",
            "(times)", "(%)"
        for (i = 1; i <= n; i++) {
            split(keys[i], f, SUBSEP)
            one = best[f[1], f[2], 1]
            printf " %-10s %8d %6d %10.4f", f[1], f[2], f[3], best[keys[i]]
            if (one > 0) printf " %10.2f %12.1f", one / best[keys[i]],
                one / best[keys[i]] / f[3] * 100
            print ""
        }
    }'
}

# ---- Goals ------------------------------------------------------------------

# What was asked of all GPUs together, beside what the rows of rows.tsv say.
goals_table() {
    awk -F '\t' -v gpus="$gpus" "$awk_median"'
    function line(what, asked, got, unit, met) {
        printf " %-44s %12s %12s %-6s %s\n", what, asked, got, unit, met
    }
    function most(what, asked, key,    m) {
        m = median_of(values[key])
        if (m >= 0)
            line(what, "<= " asked, sprintf("%.2f", m), "us",
                m <= asked ? "yes" : "NO")
    }
    FILENAME ~ /rows\.tsv$/ {
        key = $1 FS $2 FS $3 FS $5 FS $6
        values[key] = values[key] " " $7
        if ($1 == "attach" && $3 == "wharf" && $5 == "attach" && !($6 in seen)) {
            seen[$6] = 1; sizes[++count] = $6
        }
        next
    }
    FILENAME ~ /copies\.txt$/ {
        if (split($0, f, " ") >= 5 && f[2] == "least") least = f[5]
        next
    }
    split($0, f, " ") >= 6 && f[1] == "kernel" && f[3] == gpus && f[6] > 0 {
        efficiency[f[2]] = f[6]
    }
    END {
        print "# goals on " gpus " GPUs; those of barrier and signal are for eight"
        printf "#%-44s %12s %12s %-6s %s\n", " what", "asked", "got", "", "met"
        all = gpus "-on-" gpus
        for (i = 1; i <= count && gpus > 2; i++) {
            two = median_of(values["attach" FS "2-on-2" FS "wharf" FS "attach" FS sizes[i]])
            many = median_of(values["attach" FS all FS "wharf" FS "attach" FS sizes[i]])
            if (two > 0 && many > 0)
                line("attach of " sizes[i] " B, beside two GPUs",
                    "<= " gpus * (gpus - 1) / 2,
                    sprintf("%.2f", many / two), "times",
                    many / two <= gpus * (gpus - 1) / 2 ? "yes" : "NO")
        }
        most("barrier of all", 6, "barrier" FS all FS "wharf" FS "barrier" FS 0)
        most("signal and wait in kernels, there and back", 2.8,
            "sync" FS all FS "wharf" FS "flags-in-kernels" FS 0)
        if (least != "")
            line("put of the worst pair, of the engine", ">= 99",
                least, "%", least >= 99 ? "yes" : "NO")
        for (size in efficiency)
            line("Jacobi " size " x " size ", efficiency", ">= 95",
                efficiency[size], "%", efficiency[size] >= 95 ? "yes" : "NO")
    }' "$@"
}

# One figure of Wharf and the best of its peers, where both have it.
beside_peers() {
    awk -F '\t' -v shape="$gpus-on-$gpus" "$awk_median"'
    $2 != shape || $1 !~ /^(sync|copy|attach)$/ || $5 ~ /^(engine-|detach)/ { next }
    {
        key = $1 FS $5 FS $6
        name = $3 == "wharf" || $3 == "plan" ? "wharf" : "peer"
        if (!(key in known)) { known[key] = 1; keys[++n] = key }
        values[key, $3] = values[key, $3] " " $7
        if (!((key, $3) in met)) { met[key, $3] = 1; of[key, name] = of[key, name] " " $3 }
    }
    function best(key, name,    i, c, m, each, least) {
        least = -1; who = ""
        c = split(of[key, name], each, " ")
        for (i = 1; i <= c; i++) {
            m = median_of(values[key, each[i]])
            if (least < 0 || m < least) { least = m; who = each[i] }
        }
        return least
    }
    END {
        print "# beside the best peer, a rank on each GPU: median of the runs"
        printf "#%-8s %-18s %12s %10s %10s %-12s %s\n", " part", "operation",
            "bytes", "Wharf", "peer", "", "times"
        printf "#%-8s %-18s %12s %10s %10s\n", "", "", "(B)", "(us)", "(us)"
        for (i = 1; i <= n; i++) {
            w = best(keys[i], "wharf"); p = best(keys[i], "peer")
            if (w <= 0 || p <= 0) continue
            split(keys[i], f, FS)
            printf " %-8s %-18s %12d %10.2f %10.2f %-12s %.2f\n", f[1], f[2],
                f[3], w, p, who, p / w
        }
    }' "$out/rows.tsv"
}

goals_write() {
    local from=("$out/rows.tsv") file
    for file in copies scaling; do
        [ ! -s "$out/$file.txt" ] || from+=("$out/$file.txt")
    done
    goals_table "${from[@]}"
    echo
    beside_peers
}
