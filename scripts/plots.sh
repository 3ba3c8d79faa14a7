#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# plots.sh RESULTS-DIR [OUT-DIR]: plots what bench.sh has written, as SVG files
# beside it: attach.svg, latency.svg, bandwidth.svg, jacobi.svg. A part that is
# not there is left out and said. Exit code 0; 1 when nothing could be plotted;
# 2 for wrong usage; 77 without gnuplot.
set -euo pipefail

usage() {
    sed -n '4,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
}

case ${1:-} in
-h | --help) usage && exit 0 ;;
'') usage >&2 && exit 2 ;;
esac
results=$1
out=${2:-$1}
[ -d "$results" ] || {
    echo "plots.sh: $results is no directory" >&2
    exit 2
}
command -v gnuplot >/dev/null || {
    echo "plots.sh: skipped: no gnuplot (Debian, Ubuntu: gnuplot-nox)"
    exit 77
}
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
plotted=0

# ---- The machine, in one line -----------------------------------------------

# Either a line written by hand, or what wharf-info says.
machine_line() {
    local file=$results/machine.txt
    [ -s "$file" ] || {
        echo "machine unknown"
        return
    }
    awk '
    NR == 1 { first = $0 }
    /^wharf [0-9.]+, / { gpus = $5; known = 1 }
    /^NVIDIA driver / { driver = $3 }
    /^host / { kernel = $0; sub(/^[^,]*, /, "", kernel) }
    /^ +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+ / && name == "" {
        name = $0
        sub(/^ +[0-9]+ +[0-9]+ +[0-9]+ +[0-9]+ +[^ ]+ +/, "", name)
        sub(/,.*/, "", name)
    }
    END {
        if (!known) line = first
        else if (gpus > 0)
            line = gpus " x " name (driver == "" ? "" : ", driver " driver)
        else line = "no GPU, " kernel
        if (known) line = line ", " first
        print substr(line, 1, 110)
    }' "$file"
}

machine=$(machine_line)

# What a name of a program means, for the key of a plot.
pretty_names='
    function pretty(name) {
        if (name == "wharf") return "Wharf"
        if (name == "wharf-graph") return "Wharf, in a graph"
        if (name == "wharf-pool") return "Wharf, from the pool"
        if (name == "wharf-event") return "Wharf, event"
        if (name == "kernel") return "Wharf, mode kernel"
        if (name == "exchange") return "Wharf, mode exchange"
        if (name == "plan") return "Wharf"
        if (name == "ipc-by-hand") return "CUDA IPC by hand"
        if (name == "vmm-by-hand") return "VMM by hand"
        if (name == "nvshmem") return "NVSHMEM"
        if (name == "nccl") return "NCCL"
        if (name == "torch") return "PyTorch"
        if (name == "mpi") return "staged MPI"
        if (name == "engine") return "copy engine alone"
        return name
    }'

# Colours that differ for everybody; Wharf has the same one in every plot.
colour() { # NAME
    case $1 in
    wharf | kernel | plan) echo '#0072b2' ;;
    wharf-graph | wharf-pool | exchange) echo '#56b4e9' ;;
    wharf-event) echo '#003f6b' ;;
    ipc-by-hand | nvshmem) echo '#d55e00' ;;
    vmm-by-hand | nccl) echo '#e69f00' ;;
    torch) echo '#009e73' ;;
    mpi) echo '#cc79a7' ;;
    *) echo '#555555' ;;
    esac
}

# ---- Drawing ----------------------------------------------------------------

# What all plots have in common: a picture, its caption at the foot.
head_of_plot() { # FILE WIDTH HEIGHT COMMAND
    cat <<GNUPLOT
set terminal svg size $2,$3 dynamic enhanced font "sans-serif,14" background "#ffffff"
set output "$out/$1"
set encoding utf8
set grid ytics lc rgb "#dddddd"
set border 3
set lmargin at screen 0.12
set rmargin at screen 0.76
set tics nomirror out
set style fill solid 0.9 noborder
set label 99 "$machine" at screen 0.5,0.055 center font ",11" noenhanced
set label 98 "$4; medians of the runs" at screen 0.5,0.02 center font ",11" noenhanced
GNUPLOT
}

# shellcheck disable=SC2016 # gnuplot's dollars
# Series of a long table (name, x, y) as blocks of data, and the plot command.
lines_plot() { # TABLE
    local names name first=yes
    mapfile -t names < <(cut -f 1 "$1" | awk '!seen[$0]++')
    for name in "${names[@]}"; do
        echo "\$d_${name//-/_} << EOD"
        awk -F '\t' -v name="$name" '$1 == name { print $2, $3 }' "$1"
        echo EOD
    done
    printf 'plot '
    for name in "${names[@]}"; do
        [ "$first" = yes ] || printf ', '
        first=no
        printf '$d_%s using 1:2 with linespoints lw %s pt 7 ps 0.6 ' \
            "${name//-/_}" "$([[ $name == wharf* ]] && echo 3 || echo 2)"
        printf 'lc rgb "%s" title "%s"' "$(colour "$name")" \
            "$(awk "$pretty_names BEGIN { print pretty(ARGV[1]) }" "$name")"
    done
    echo
}

# shellcheck disable=SC2016 # gnuplot's dollars
# The same as bars: (name, cluster, value); a cluster that a name lacks is a gap.
bars_plot() { # TABLE
    local names name first=yes
    mapfile -t names < <(cut -f 1 "$1" | awk '!seen[$0]++')
    echo "\$bars << EOD"
    awk -F '\t' '
        !($2 in known) { known[$2] = 1; clusters[++n] = $2 }
        !($1 in named) { named[$1] = 1; names[++m] = $1 }
        { value[$1, $2] = $3 }
        END {
            for (i = 1; i <= n; i++) {
                printf "\"%s\"", clusters[i]
                for (j = 1; j <= m; j++)
                    printf " %s", (names[j], clusters[i]) in value \
                        ? value[names[j], clusters[i]] : "NaN"
                print ""
            }
        }' "$1"
    echo EOD
    echo 'set style data histograms'
    echo 'set style histogram clustered gap 1'
    echo 'set boxwidth 0.9'
    printf 'plot '
    local column=2
    for name in "${names[@]}"; do
        [ "$first" = yes ] || printf ', '
        printf '$bars using %d' "$column"
        [ "$first" = no ] || printf ':xtic(1)'
        first=no
        printf ' lc rgb "%s" title "%s"' "$(colour "$name")" \
            "$(awk "$pretty_names BEGIN { print pretty(ARGV[1]) }" "$name")"
        column=$((column + 1))
    done
    # The figure above each bar. Bars of a cluster share a width of 1 with a gap.
    local count=${#names[@]}
    for ((column = 2; column < count + 2; column++)); do
        printf ', $bars using ($0 + %d / %d.0):%d:(sprintf("%%.3g", $%d)) ' \
            "$((2 * (column - 2) - count + 1))" "$((2 * (count + 1)))" \
            "$column" "$column"
        printf 'with labels font ",9" offset 0,0.5 notitle'
    done
    echo
}

# Ticks at the sizes that were measured, and a little room on both sides.
byte_axis() { # TABLE
    echo 'set logscale x 2'
    cut -f 2 "$1" | sort -n | uniq | awk '
        function text(bytes) {
            if (bytes >= 2 ^ 30) return bytes / 2 ^ 30 " GiB"
            if (bytes >= 2 ^ 20) return bytes / 2 ^ 20 " MiB"
            if (bytes >= 2 ^ 10) return bytes / 2 ^ 10 " KiB"
            return bytes " B"
        }
        { size[++n] = $1 }
        END {
            printf "set xtics ("
            for (i = 1; i <= n; i++)
                printf "%s\"%s\" %s", (i == 1 ? "" : ", "), text(size[i]),
                    size[i]
            printf ")\nset xrange [%s:%s]\n", size[1] / 1.2, size[n] * 1.2
        }'
}

draw() { # FILE SCRIPT
    if gnuplot "$2" 2>"$work/errors" && [ -s "$out/$1" ]; then
        sed -i 's/[[:blank:]]*$//' "$out/$1"
        plotted=$((plotted + 1))
        echo "plots.sh: $out/$1"
    else
        echo "plots.sh: $1 failed: $(grep -v '^$' "$work/errors" | tail -n 2)" >&2
        exit 1
    fi
}

left_out() { # FILE WHY
    echo "plots.sh: no $1: $2"
}

# ---- Attach time against size -----------------------------------------------

attach_rows() {
    awk '
    /^# [a-z-]+, median of / { op = $2; sub(/,/, "", op); next }
    $1 == "#" && $2 == "bytes" {
        n = 0
        for (i = 3; i <= NF && $(i + 1) != ":"; i++) names[++n] = $i
        next
    }
    /^#/ || NF < 2 { next }
    op == "attach" {
        for (i = 1; i <= n; i++)
            printf "%s\t%s\t%.4f\n", names[i], $1, $(i + 1) / 1e3
    }
    op == "attach-from-pool" {
        printf "wharf-pool\t%s\t%.6f\n", $1, $2 / 1e3
    }' "$results/attach.txt"
}

plot_attach() {
    [ -s "$results/attach.txt" ] || {
        left_out attach.svg "no attach.txt"
        return
    }
    attach_rows >"$work/attach"
    [ -s "$work/attach" ] || {
        left_out attach.svg "no figures in attach.txt"
        return
    }
    {
        head_of_plot attach.svg 1000 560 'scripts/bench.sh attach'
        byte_axis "$work/attach"
        echo 'set title "Attach: all ranks allocate, share and map"'
        echo 'set xlabel "segment of each rank"'
        echo 'set ylabel "time of the slowest rank (ms)"'
        echo 'set logscale y 10; set format y "%g"'
        echo 'set key outside right top'
        echo 'set bmargin at screen 0.22'
        lines_plot "$work/attach"
    } >"$work/attach.gp"
    draw attach.svg "$work/attach.gp"
}

# ---- Latency by mechanism and placement -------------------------------------

# name, cluster, us of one operation; a cluster is a shape with its mechanism.
latency_rows() { # OPERATION
    awk -v wanted="$1" '
    function placement(shape,    of, text) {
        split(shape, of, "-")
        if (of[3] == "host") return of[1] " ranks\\nno GPU"
        text = of[1] " ranks\\n" of[3] " GPU" (of[3] > 1 ? "s" : "")
        return text (of[4] == "mps" ? ", MPS" : "")
    }
    # All mechanisms of a shape, once each.
    function cluster(    text) {
        text = placement(shape)
        return how == "" ? text : text "\\n" how
    }
    function row(name, value) {
        if (value + 0 > 0) printf "%s\t%s\t%s\n", name, cluster(), value
    }
    /^# .*: median of the runs, us/ {
        shape = $2; sub(/:/, "", shape); how = ""; next
    }
    /^# rank [0-9]+ to [0-9]+: / {
        split($0, of, /: /); sub(/,.*/, "", of[2])
        if (index(how, of[2]) == 0) how = how (how == "" ? "" : " +\\n") of[2]
        next
    }
    /^# *operation/ {
        n = 0
        for (i = 1; i <= NF; i++)
            if ($i == "operation") at = i
        for (i = at + 1; i <= NF; i++) names[++n] = $i
        # Wharf first, so that its bar is the first of each cluster.
        for (i = 1; i <= n; i++) if (names[i] == "wharf") own = i
        next
    }
    /^#/ || NF < 2 || shape == "" { next }
    $1 == wanted || ($1 == wanted "-round-trip") {
        row("wharf", $(own + 1))
        for (i = 1; i <= n; i++) if (i != own) row(names[i], $(i + 1))
    }
    $1 == wanted "-graph" { row("wharf-graph", $(own + 1)) }
    wanted == "notify" && ($1 == "event" || $1 == "event-round-trip") {
        row("wharf-event", $(own + 1))
    }' "$results/sync.txt"
}

plot_latency() {
    local op
    [ -s "$results/sync.txt" ] || {
        left_out latency.svg "no sync.txt"
        return
    }
    for op in barrier notify; do
        latency_rows $op >"$work/$op"
        [ -s "$work/$op" ] || {
            left_out latency.svg "no $op in sync.txt"
            return
        }
    done
    {
        head_of_plot latency.svg 1000 900 'scripts/bench.sh sync'
        echo 'set logscale y 10; set format y "%g"'
        echo 'set ylabel "time (us)"'
        echo 'set xtics font ",12"'
        echo 'set key outside right top'
        echo 'set multiplot'
        echo 'set origin 0,0.53; set size 1,0.47; set bmargin 5'
        echo 'set title "Barrier of all ranks on their streams"'
        bars_plot "$work/barrier"
        echo 'unset label 98; unset label 99'
        echo 'set origin 0,0.08; set size 1,0.45'
        echo 'set title "Hand-over between two ranks, there and back"'
        bars_plot "$work/notify"
        echo 'unset multiplot'
    } >"$work/latency.gp"
    draw latency.svg "$work/latency.gp"
}

# ---- Bandwidth against size -------------------------------------------------

# name, bytes, GB/s of one operation, from 32 KiB up: below it is latency.
bandwidth_rows() { # SHAPE OPERATION
    awk -v shape="$1" -v wanted="$2" '
    # The floor is an operation of its own, in the column of Wharf.
    /^# .*: median of the runs, us \(GB\/s\)/ {
        here = $2; sub(/,/, "", here); op = $3; sub(/:/, "", op); next
    }
    $1 == "#" && $2 == "bytes" {
        n = 0
        for (i = 3; i <= NF; i++) names[++n] = $i
        next
    }
    /^#/ || here != shape || $1 < 32768 { next }
    {
        gsub(/\([^)]*\)/, "")
        if (op != wanted && op != "engine-" wanted) next
        for (i = 1; i <= n; i++) {
            name = names[i]
            if ($(i + 1) == "-" || $(i + 1) == "") continue
            if (op != wanted && name != "wharf") continue
            if (op != wanted) name = "engine"
            else if (name == "engine" || name == "kernel") continue
            if (wanted == "exchange" && name == "wharf") continue
            if (name == "plan") name = "wharf"
            printf "%s\t%s\t%.5f\n", name, $1, $1 / $(i + 1) / 1e3
        }
    }' "$results/copy.txt"
}

plot_bandwidth() {
    local shape=2-on-2 op where
    [ -s "$results/copy.txt" ] || {
        left_out bandwidth.svg "no copy.txt"
        return
    }
    for shape in 2-on-2 2-on-1 2-on-host; do
        ! grep -q "^# $shape, put:" "$results/copy.txt" || break
    done
    case $shape in
    2-on-2) where='two GPUs' ;;
    2-on-1) where='one GPU, shared' ;;
    *) where='no GPU' ;;
    esac
    for op in put exchange; do
        bandwidth_rows $shape $op >"$work/$op"
    done
    # Without the programs in CUDA an exchange has the name of its form.
    [ -s "$work/exchange" ] ||
        bandwidth_rows $shape exchange-run-2 >"$work/exchange"
    [ -s "$work/put" ] || {
        left_out bandwidth.svg "no put in copy.txt"
        return
    }
    {
        head_of_plot bandwidth.svg 1000 900 'scripts/bench.sh copy'
        echo 'set yrange [0:*]'
        echo 'set ylabel "each way (GB/s, 1 GB = 10^9 bytes)"'
        echo 'set key outside right top'
        echo 'set multiplot'
        echo 'set origin 0,0.53; set size 1,0.47'
        echo "set title \"Put, both ways at once: $where\""
        byte_axis "$work/put"
        lines_plot "$work/put"
        echo 'unset label 98; unset label 99'
        if [ -s "$work/exchange" ]; then
            echo 'set origin 0,0.08; set size 1,0.45'
            echo 'set xlabel "bytes of each way"'
            echo "set title \"Exchange: put, signal, wait, both ways at once: $where\""
            byte_axis "$work/exchange"
            lines_plot "$work/exchange"
        fi
        echo 'unset multiplot'
    } >"$work/bandwidth.gp"
    draw bandwidth.svg "$work/bandwidth.gp"
}

# ---- Jacobi -----------------------------------------------------------------

# program, side of the grid, ranks, us a step: a line a run. From the JSON, or
# from text as the programs print it.
jacobi_runs() {
    if [ -s "$results/jacobi.json" ]; then
        sed -n 's/.*"program": "\([a-z]*\)", "rows": \([0-9]*\), .*"ranks": \([0-9]*\), "steps": \([0-9]*\), "seconds": \([0-9.e+-]*\),.*/\1 \2 \3 \4 \5/p' \
            "$results/jacobi.json" |
            awk '{ printf "%s\t%s\t%s\t%.3f\n", $1, $2, $3, $5 / $4 * 1e6 }'
        return
    fi
    awk '
    /^# / && / mode kernel/ { name = "kernel" }
    /^# / && / mode exchange/ { name = "exchange" }
    /^# NCCL/ { name = "nccl" }
    /^# NVSHMEM/ { name = "nvshmem" }
    /^# staged MPI/ { name = "mpi" }
    $1 ~ /^[0-9]+$/ && NF >= 9 && name != "" {
        printf "%s\t%s\t%s\t%s\n", name, $1, $3, $6
    }' "$results/jacobi.txt"
}

# Medians of the runs, in the order of the programs.
jacobi_medians() {
    sort -t "$(printf '\t')" -k1,1 -k2,2n -k3,3n -k4,4n | awk -F '\t' '
    function flush() {
        if (n) printf "%s\t%s\t%s\t%s\n", f[1], f[2], f[3],
            (v[int((n + 1) / 2)] + v[int(n / 2) + 1]) / 2
        n = 0
    }
    $1 FS $2 FS $3 != last { flush(); last = $1 FS $2 FS $3 }
    { v[++n] = $4; f[1] = $1; f[2] = $2; f[3] = $3 }
    END { flush() }' | awk -F '\t' '
    BEGIN { order["kernel"] = 1; order["exchange"] = 2; order["nccl"] = 3
        order["nvshmem"] = 4; order["mpi"] = 5 }
    { print order[$1] "\t" $0 }' |
        sort -t "$(printf '\t')" -k1,1n -k3,3nr -k4,4n | cut -f 2-
}

# name, cluster, value: time on as many ranks as there were, and efficiency
# beside the own run of one rank (mode exchange: of its own too).
jacobi_times() {
    awk -F '\t' '{ printf "%s\t%d x %d\\n%d GPU%s\t%s\n", $1, $2, $2, $3,
        ($3 > 1 ? "s" : ""), $4 }' "$work/jacobi"
}

jacobi_efficiency() {
    awk -F '\t' '
    $3 == 1 { one[$1, $2] = $4 }
    { lines[NR] = $0 }
    END {
        for (i = 1; i <= NR; i++) {
            split(lines[i], f, "\t")
            if (f[3] > 1 && (f[1], f[2]) in one)
                printf "%s\t%d x %d\\n%d GPUs\t%.2f\n", f[1], f[2], f[2], f[3],
                    one[f[1], f[2]] / (f[4] * f[3]) * 100
        }
    }' "$work/jacobi"
}

plot_jacobi() {
    [ -s "$results/jacobi.txt" ] || [ -s "$results/jacobi.json" ] || {
        left_out jacobi.svg "no jacobi.txt"
        return
    }
    jacobi_runs | jacobi_medians >"$work/jacobi"
    [ -s "$work/jacobi" ] || {
        left_out jacobi.svg "no runs in jacobi.txt"
        return
    }
    jacobi_times >"$work/times"
    jacobi_efficiency >"$work/efficiency"
    {
        head_of_plot jacobi.svg 1000 900 'scripts/bench.sh jacobi'
        echo 'set key outside right top'
        echo 'set multiplot'
        echo 'set origin 0,0.53; set size 1,0.47; set bmargin 4'
        echo 'set logscale y 10; set format y "%g"'
        echo 'set ylabel "time of one step (us)"'
        echo 'set title "Jacobi, float32, 2-D, a norm every 100 steps"'
        bars_plot "$work/times"
        echo 'unset label 98; unset label 99'
        if [ -s "$work/efficiency" ]; then
            echo 'set origin 0,0.08; set size 1,0.45'
            echo 'unset logscale y'
            echo 'set yrange [0:110]; set ytics 20'
            echo 'set ylabel "of the own run on one GPU (%)"'
            echo 'set title "Efficiency"'
            bars_plot "$work/efficiency"
        fi
        echo 'unset multiplot'
    } >"$work/jacobi.gp"
    draw jacobi.svg "$work/jacobi.gp"
}

plot_attach
plot_latency
plot_bandwidth
plot_jacobi
[ $plotted -gt 0 ] || {
    echo "plots.sh: nothing in $results to plot" >&2
    exit 1
}
