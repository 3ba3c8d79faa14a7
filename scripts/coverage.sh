#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# coverage.sh [--least PERCENT] [--report] [CTEST-OPTION...]: which lines of
# runtime/ the tests reach that need no GPU. Builds with gcc's --coverage in
# build-coverage (or WHARF_BUILD), runs the tests, prints lines reached and
# lines there are for every file, the worst first, and writes both with the
# text of the lines to missing.txt in the build directory. Exit code 1 if less
# than PERCENT (85) of all lines are reached; failing tests are named, and fail
# nothing here: test.sh is for that.
#
#   --report        only report on what earlier runs have left
#   -L '^unit$'     any option of ctest: only these tests
#
# Takes 20 to 30 minutes on two cores. Left out, since they show the same lines
# again: runs of 8 and more ranks and the tests of many cycles; and labels that
# compile or install. Not counted, since gcov knows C alone: kernels (*.cu),
# which have CPU versions in tests/support/fake_cuda, and the Fortran module.
# What a killed process has done is not counted either.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C
. scripts/setup.sh

least=85 build=${WHARF_BUILD:-build-coverage} only_report=
while [ $# -gt 0 ]; do
    case $1 in
    --least)
        least=${2:-}
        [[ $least =~ ^[0-9]+(\.[0-9]+)?$ ]] || stop "--least wants a number"
        shift 2
        ;;
    --report) only_report=1 && shift ;;
    -h | --help) sed -n '4,21s/^# \{0,1\}//p' "$0" && exit ;;
    *) break ;;
    esac
done

# The gcov that belongs to the compiler: it must be of the same version.
find_gcov() { # BUILD-DIRECTORY
    local compiler name version
    compiler=$(sed -n 's/^CMAKE_C_COMPILER:[A-Z]*=//p' "$1/CMakeCache.txt")
    "$compiler" --version 2>/dev/null | grep -q 'Free Software Foundation' ||
        stop "coverage is gcc's; this build's compiler is '$compiler'"
    version=$("$compiler" -dumpversion)
    for name in "gcov-${version%%.*}" gcov; do
        if command -v "$name" >/dev/null &&
            "$name" --version | head -n 1 | grep -q " ${version%%.*}\."; then
            echo "$name"
            return
        fi
    done
    stop "no gcov of version ${version%%.*} is here: it comes with gcc"
}

if [ -z "$only_report" ]; then
    setup_packages
    setup_configure default "$build" -DCMAKE_BUILD_TYPE=Debug \
        -DWHARF_COVERAGE=ON -DWHARF_WERROR=OFF >/dev/null ||
        stop "configuring $build failed"
    say "building in $build, see $build/build.log"
    setup_build "$build" >"$build/build.log" 2>&1 ||
        stop "building failed: $(grep -m 1 'error:' "$build/build.log")"
    # Counts of an older build are of other lines.
    find "$build" -name '*.gcda' -delete
    [ $# -gt 0 ] || set -- -LE '^(gpu|headers|install|hosts)$' \
        -E '\.np(8|16|32|64)(\.|$)|cycles|scale'
    say "testing $build $*"
    ctest --test-dir "$build" --parallel "$(nproc)" "$@" |
        grep -E '^[0-9]+% tests|\((Failed|Timeout|SEGFAULT|Subprocess)'
fi
[ -e "$build/CMakeCache.txt" ] || stop "nothing was built in $build"
gcov=$(find_gcov "$build") || exit 1
mapfile -t -d '' counted < <(find "$build" -name '*.gcda' -print0)
[ ${#counted[@]} -gt 0 ] || stop "no test has run in $build"
# Files that no test has loaded have notes and no counts.
mapfile -t -d '' notes < <(find "$build" -name '*.gcno' -print0)

"$gcov" --stdout "${notes[@]}" 2>/dev/null |
    ROOT=$PWD LEAST=$least MISSING=$build/missing.txt perl -ne '
    # "count:line:text"; a header comes once for each file that includes it.
    if (/^\s*-:\s*0:Source:(.*)/) {
        $file = $1 =~ m{(?:^|/)(runtime/.*)} ? $1 : "";
    } elsif ($file && /^\s*([-#=*0-9]+):\s*(\d+):(.*)/) {
        next if $2 == 0 || $1 eq "-";
        $lines{$file}{$2} |= $1 =~ /^\d/ ? 1 : 0;
        $text{$file}{$2} = $3;
    }
    END {
        open(my $missing, ">", $ENV{MISSING}) or die "$ENV{MISSING}: $!\n";
        for my $f (sort keys %lines) {
            for my $l (sort { $a <=> $b } keys %{$lines{$f}}) {
                $area = $f =~ m{^runtime/(\w+)} ? $1 : "";
                $_->{all}++ for $of{$f} //= {}, $of_area{$area} //= {}, \%sum;
                if ($lines{$f}{$l}) {
                    $_->{got}++ for $of{$f}, $of_area{$area}, \%sum;
                } else {
                    print $missing "$f:$l:$text{$f}{$l}\n";
                }
            }
        }
        die "coverage.sh: gcov told nothing\n" if !$sum{all};
        sub rate { my $x = shift; 100 * ($x->{got} // 0) / $x->{all} }
        sub show { my ($name, $x) = @_;
            printf "%6.1f %%  %6d of %6d  %s\n", rate($x), $x->{got} // 0,
                $x->{all}, $name }
        show($_, $of{$_})
            for sort { rate($of{$a}) <=> rate($of{$b}) || $a cmp $b } keys %of;
        print "\n";
        show("runtime/$_", $of_area{$_}) for sort keys %of_area;
        show("runtime", \%sum);
        print "lines not reached: $ENV{MISSING}\n";
        if (rate(\%sum) < $ENV{LEAST}) {
            print "less than $ENV{LEAST} %\n";
            exit 1;
        }
    }'
