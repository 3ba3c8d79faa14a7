#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# test.sh [--sanitizers] [CTEST-OPTION...]: builds Wharf and runs all its tests
# that this machine can run: with GPUs when there are any. Installs what is
# missing (apt, as root or with sudo). With --sanitizers, or when CI is set,
# also runs them under the sanitizers, as far as 20 minutes allow.
#
# The last line is "N passed, N failed, N skipped".
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
. scripts/setup.sh

sanitizers=${CI:-}
if [ "${1:-}" = --sanitizers ]; then
    sanitizers=1
    shift
fi

# All of it must end within 20 minutes on two cores: a sanitizer is begun, with
# the quick labels, as long as there is time for them; the others, which take
# minutes, only if all before them was quick.
latest_build_s=780
latest_start_s=480

passed=0 failed=0 skipped=0
finish() {
    printf '%d passed, %d failed, %d skipped\n' $passed $failed $skipped
    [ $failed -eq 0 ] && [ $passed -gt 0 ]
    exit
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
setup_test_packages
step "configuring build" setup_configure default build || exit 1
step "building build" setup_build build || exit 1

labels=(-LE '^gpu$')
if gpu_here; then
    say "a GPU is here: its tests run too"
    labels=()
fi
run_tests build error "${labels[@]}" "$@"

if [ -n "$sanitizers" ]; then
    sanitizer_run asan "$@"
    if tsan_works; then
        sanitizer_run tsan "$@"
    else
        say "tsan: left out, the thread sanitizer cannot run on this machine"
    fi
fi
