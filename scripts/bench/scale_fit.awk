# SPDX-License-Identifier: MIT
# Fits cost = a + b*ranks + c*gpus + d*ranks*gpus to the tables of t_cost, for
# every call and column: least squares by the normal equations. Lines that are
# no part of such a table are skipped.
#
#   awk -f scale_fit.awk [-v columns="driver all:driver us"] TABLE...
#
# A column of t_cost with two numbers is the rank that has most ("driver") and
# the sum of all ranks ("all:driver"). "off" is the worst deviation of a point
# from the fit, as it is and in hundredths of that point.
function round_up(x) { return x < 0 ? -x : x }

function heads(    i, name) {
    # "# call ranks gpus us", then pairs NAME all.
    for (i = 5; i <= NF; i++) {
        name = $i
        if ($i == "all")
            name = "all:" $(i - 1)
        column[i - 1] = name
    }
    count = NF - 1
    column[4] = "us"
}

# Gauss, with the largest pivot; a pivot of 0 leaves its unknown 0: there are
# too few shapes to tell.
function solve(    i, j, k, p, t, f) {
    for (i = 1; i <= 4; i++) {
        p = i
        for (k = i + 1; k <= 4; k++)
            if (round_up(m[k, i]) > round_up(m[p, i]))
                p = k
        for (j = i; j <= 5; j++) {
            t = m[i, j]; m[i, j] = m[p, j]; m[p, j] = t
        }
        if (round_up(m[i, i]) < 1e-9) {
            for (j = i; j <= 5; j++)
                m[i, j] = 0
            m[i, i] = 1
            continue
        }
        for (k = 1; k <= 4; k++) {
            if (k == i)
                continue
            f = m[k, i] / m[i, i]
            for (j = i; j <= 5; j++)
                m[k, j] -= f * m[i, j]
        }
    }
    for (i = 1; i <= 4; i++)
        x[i] = m[i, 5] / m[i, i]
}

function fit(call, col,    i, j, n, v, y, off, worst, share, at) {
    delete m
    for (n = 1; n <= points[call]; n++) {
        v[1] = 1; v[2] = ranks[call, n]; v[3] = gpus[call, n]
        v[4] = v[2] * v[3]; y = value[call, n, col]
        for (i = 1; i <= 4; i++) {
            for (j = 1; j <= 4; j++)
                m[i, j] += v[i] * v[j]
            m[i, 5] += v[i] * y
        }
    }
    solve()
    worst = share = 0
    at = "-"
    for (n = 1; n <= points[call]; n++) {
        y = value[call, n, col]
        off = round_up(y - x[1] - x[2] * ranks[call, n] - \
                       x[3] * gpus[call, n] - \
                       x[4] * ranks[call, n] * gpus[call, n])
        if (off > worst + 1e-6) {
            worst = off
            share = y == 0 ? 0 : 100 * off / y
            at = ranks[call, n] "x" gpus[call, n]
        }
    }
    printf "%-7s %-12s %11.3f %11.4f %11.4f %11.5f %10.2f %6.1f%% %8s\n", call,
        column[col], x[1] + 0, x[2] + 0, x[3] + 0, x[4] + 0, worst, share, at
}

BEGIN {
    if (columns == "")
        columns = "us driver all:driver system all:exported mapped " \
                  "sent all:sent all:bytes rounds"
}

$1 == "#" && $2 == "call" { heads(); next }

count && NF == count && $2 ~ /^[0-9]+$/ && $3 ~ /^[0-9]+$/ {
    if (!($1 in points))
        order[++calls] = $1
    n = ++points[$1]
    ranks[$1, n] = $2
    gpus[$1, n] = $3
    for (i = 4; i <= NF; i++)
        value[$1, n, i] = $i
}

END {
    if (!calls) {
        print "scale_fit: no table of t_cost in the input" > "/dev/stderr"
        exit 1
    }
    printf "%-7s %-12s %11s %11s %11s %11s %10s %7s %8s\n", "call", "column",
        "a", "b*ranks", "c*gpus", "d*r*g", "off", "", "at"
    wanted = split(columns, want, " ")
    for (k = 1; k <= calls; k++)
        for (w = 1; w <= wanted; w++)
            for (i = 4; i <= count; i++)
                if (column[i] == want[w])
                    fit(order[k], i)
}
