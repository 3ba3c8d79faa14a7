#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# test.sh [--mpich] [--sanitizers] [--docs] [--only asan|tsan|mpich]
# [CTEST-OPTION...]: builds Wharf and runs all its tests that this machine can
# run: with GPUs when there are any. Installs what is missing (apt, as root or
# with sudo). With --mpich, or when CI is set, also builds with MPICH, where it
# is beside another MPI, and runs the tests that know MPI. With --sanitizers, or
# when CI is set, also runs them under the sanitizers. Both go as far as 20
# minutes allow, and say what they leave out. With --docs installs what the
# tests of the documentation need, however large. With --only, that alone,
# however long it takes: asan finds wrong addresses, leaks and undefined
# behaviour, tsan finds races.
#
# The last line is "N passed, N failed, N skipped"; exit code 0 if none failed.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
. scripts/setup.sh

sanitizers=${CI:-}
mpich=${CI:-}
docs=
only=
while :; do
    case ${1:-} in
    -h | --help) sed -n '4,16s/^# \{0,1\}//p' scripts/test.sh && exit 0 ;;
    --mpich) mpich=1 ;;
    --sanitizers) sanitizers=1 ;;
    --docs) docs=1 ;;
    --only)
        only=${2:-}
        case $only in
        mpich) mpich=1 && shift ;;
        asan | tsan) mpich= && shift ;;
        *) stop "--only wants asan, tsan or mpich, not '$only'" ;;
        esac
        ;;
    *) break ;;
    esac
    shift
done

# All of it must end within 20 minutes on two cores. MPICH's build is begun, and
# each handful of its tests, as long as there is time. A sanitizer is begun, with
# the quick labels, as long as there is time for them; the others, which take
# minutes, only if all before them was quick.
latest_mpich_build_s=840
latest_mpich_s=1020
latest_build_s=780
latest_start_s=480
if [ -n "$only" ]; then
    latest_build_s=1000000 latest_start_s=1000000
    latest_mpich_build_s=1000000 latest_mpich_s=1000000
fi

passed=0 failed=0 skipped=0
# An exit without a number would end with what came before the trap.
finish() {
    printf '%d passed, %d failed, %d skipped\n' $passed $failed $skipped
    [ $failed -eq 0 ] && [ $passed -gt 0 ] && exit 0
    exit 1
}
trap finish EXIT

# A step before the tests that fails counts as one failed test.
step() { # WHAT COMMAND...
    local what=$1 log code=0
    shift
    log=$(mktemp) || return 1
    say "$what"
    if "$@" >"$log" 2>&1; then
        grep -E '^-- .*(CUDA backend|topology|sanitizers):' "$log"
    else
        cat "$log"
        say "$what failed"
        failed=$((failed + 1))
        code=1
    fi
    rm -f "$log"
    return $code
}

# Every result of a run; a test that could not start is a failed one.
count_results() { # JUNIT-FILE
    local results
    results=$(perl -0777 -ne '
        while (/<testcase\b([^>]*?)(?:\/>|>(.*?)<\/testcase>)/gs) {
            my ($head, $body) = ($1, $2 // "");
            my ($name) = $head =~ /\bname="([^"]*)"/;
            my ($status) = $head =~ /\bstatus="(\w+)"/;
            my $kind = $status eq "run" ? "passed" : $status eq "disabled" ||
                $body =~ /<skipped message="SKIP_/ ? "skipped" : "failed";
            $n{$kind}++;
            next unless $kind eq "skipped";
            my ($reason) = $body =~ /skipped: ([^\n<]*)/;
            print STDERR "   $name: ", $reason // "(no reason given)", "\n";
        }
        printf "%d %d %d\n", map { $n{$_} // 0 } qw(passed failed skipped)
    ' "$1") || results="0 1 0"
    local p f s
    read -r p f s <<<"${results:-0 1 0}"
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

run_tests() { # DIRECTORY error|ignore CTEST-OPTION...
    local directory=$1 none=$2 results=$1/results.xml
    shift 2
    rm -f "$results"
    say "testing $directory $*"
    "${launcher[@]}" ctest --test-dir "$directory" --output-on-failure \
        --no-tests="$none" --parallel "$(nproc)" --output-junit results.xml "$@"
    if [ -s "$results" ]; then
        count_results "$results"
    elif [ "$none" = error ]; then
        failed=$((failed + 1))
    fi
}

# Fewer than all tests: those that vary the driver, the mechanism or the number
# of ranks would show nothing more of MPI, and the tools are another's output.
mpich_run() { # [CTEST-OPTION...]
    local all from=1 handful=40 which=(
        -L '^(mp|fake|fault|example)$' -LE '^(gpu|tools)$' -E
        '^fake\.(sweep|device|driver|foreign|fake)|\.np(8|16|32|64|128)(\.|$)|cycles|\.(dev[0-9]+|mps|no_[a-z_]+|on_host[a-z_]*|kernel_on_host|ipc|kernel|mem-ops|hybrid|by_[a-z]+|signal_[a-z-]+|chunks|memfd|vmm|fabric)$')
    if ! command -v mpicc.mpich >/dev/null; then
        say "mpich: left out, it is not installed beside another MPI"
        return
    fi
    if [ $SECONDS -gt $latest_mpich_build_s ]; then
        say "mpich: left out, $SECONDS s are used"
        return
    fi
    # Kernels for one GPU are enough to build.
    step "configuring mpich" setup_configure mpich build-mpich \
        -DWHARF_CUDA_ARCHITECTURES=75 -DCMAKE_CUDA_ARCHITECTURES=75 || return
    step "building mpich" setup_build build-mpich || return
    all=$(ctest --test-dir build-mpich -N "${which[@]}" "$@" |
        sed -n 's/^Total Tests: //p')
    while [ "$from" -le "${all:-0}" ]; do
        if [ $SECONDS -gt $latest_mpich_s ]; then
            say "mpich: $((all - from + 1)) of $all tests left out," \
                "$SECONDS s are used"
            return
        fi
        run_tests build-mpich ignore "${which[@]}" \
            -I "$from,$((from + handful - 1))" "$@"
        from=$((from + handful))
    done
}

# The thread sanitizer of older compilers cannot run where the kernel spreads
# addresses widely; then it needs a fixed layout, which not every container
# allows.
tsan_works() {
    local program
    program=$(mktemp) || return 1
    launcher=()
    echo 'int main(void) { return 0; }' |
        cc -fsanitize=thread -x c -o "$program" - 2>/dev/null || {
        rm -f "$program"
        return 1
    }
    local ok=1
    if ! "$program" 2>/dev/null; then
        launcher=(setarch "$(uname -m)" -R)
        "${launcher[@]}" "$program" 2>/dev/null || ok=0
    fi
    rm -f "$program"
    [ $ok -eq 1 ]
}

sanitizer_run() { # PRESET [CTEST-OPTION...]
    local preset=$1 label seen=gpu
    shift
    if [ $SECONDS -gt $latest_build_s ]; then
        say "$preset: left out, $SECONDS s are used"
        return
    fi
    step "configuring $preset" setup_configure "$preset" "build-$preset" \
        -DWHARF_BUILD_EXAMPLES=OFF || return
    step "building $preset" setup_build "build-$preset" || return
    for label in 'unit|topo|fuzz' fault fake mp; do
        if [ "$seen" != gpu ] && [ $SECONDS -gt $latest_start_s ]; then
            say "$preset: $label left out, $SECONDS s are used"
            continue
        fi
        # Many ranks and many rounds show nothing more here, and take minutes.
        run_tests "build-$preset" ignore -L "^($label)\$" -LE "^($seen)\$" \
            -E '\.np(8|16)(\.|$)|cycles' "$@"
        seen="$seen|$label"
    done
}

launcher=()
setup_packages || exit 1
setup_test_packages "$docs" "$mpich"

if [ "$only" = tsan ] && ! tsan_works; then
    say "the thread sanitizer cannot run on this machine"
    failed=1
    exit
elif [ "$only" = mpich ]; then
    mpich_run "$@"
    exit
elif [ -n "$only" ]; then
    sanitizer_run "$only" "$@"
    exit
fi

step "configuring build" setup_configure default build || exit 1
step "building build" setup_build build || exit 1

labels=(-LE '^gpu$')
if gpu_here; then
    say "a GPU is here: its tests run too"
    labels=()
fi
run_tests build error "${labels[@]}" "$@"

if [ -n "$mpich" ]; then
    mpich_run "$@"
fi

if [ -n "$sanitizers" ]; then
    sanitizer_run asan "$@"
    if tsan_works; then
        sanitizer_run tsan "$@"
    else
        say "tsan: left out, the thread sanitizer cannot run on this machine"
    fi
fi
