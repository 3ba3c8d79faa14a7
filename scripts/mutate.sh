#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# mutate.sh [--count N] [--seed N] [--minutes N] [--list] [FILE...]: do the
# tests notice when a line of runtime/core is wrong? Changes one operator or
# drops one call at a time, in a copy of the tree, builds what changed, and runs
# the tests that are to hold that file, then the short ones of the fault sweep,
# until the first one fails.
#
#   --count N    mutants (50), drawn by --seed (1) from each file in turn
#   --minutes N  begins no further mutant after that time (no limit)
#   --list       only prints the mutants that would be tried
#   FILE...      only of these files, e.g. runtime/core/pool.c
#
# One line for each: killed (and by which test), survived, or not built; the
# seconds; the place; the change. All lines, and the survivors' again, are in
# results.txt of build-mutate (or WHARF_BUILD), where the copy and its build are
# as well. A test that hangs counts as one that fails, and is marked: a machine
# with much else to do could be the cause. Exit code 0 however many survive: some
# changes change nothing that a caller could see.
set -u -o pipefail
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C
. scripts/setup.sh

count=50 seed=1 minutes=0 only_list='' generator=()
place=${WHARF_BUILD:-build-mutate}
unset WHARF_BUILD # the library would warn of a setting that it does not know
while [ $# -gt 0 ]; do
    case $1 in
    --count | --seed | --minutes)
        [[ ${2:-} =~ ^[0-9]+$ ]] || stop "$1 wants a number"
        declare "${1#--}=$2"
        shift 2
        ;;
    --list) only_list=1 && shift ;;
    -h | --help) sed -n '4,21s/^# \{0,1\}//p' "$0" && exit ;;
    -*) stop "no option $1; see --help" ;;
    *) break ;;
    esac
done
files=("$@")
[ ${#files[@]} -gt 0 ] || files=(runtime/core/*.c)
for file in "${files[@]}"; do
    [ -e "$file" ] || stop "$file does not exist"
done

# FILE LINE COLUMN LENGTH REPLACEMENT, tab separated; all, or `count` by `seed`.
# Log lines are left alone, and the checks of invariants: they do nothing.
mutants() {
    COUNT=$count SEED=$seed perl -0777 -ne '
        BEGIN { %other = ("==", "!=", "!=", "==", "<", "<=", "<=", "<",
            ">", ">=", ">=", ">", "&&", "||", "||", "&&", "+", "-", "-", "+",
            "+=", "-=", "-=", "+=", "|=", "&=", "&", "|", "|", "&") }
        # Same length, so that places stay.
        s{(/\*.*?\*/|^\s*\#(?:[^\n]*\\\n)*[^\n]*|"(?:\\.|[^"\\\n])*")}
         {my $t = $1; $t =~ s/[^\n]/ /g; $t}gsmex;
        my ($n, $before, @lines) = (0, "", split /\n/);
        for my $l (@lines) {
            $n++;
            # The rest of a statement is none, and would not compile as one.
            my $whole = $before =~ /([;{})]|\belse)\s*$/;
            $before = $l if $l =~ /\S/;
            next if $l !~ /^    / || $l =~ /\b(wi_log|assert|wi_call_\w+)\s*\(/;
            if ($whole && $l =~ /^\s+([a-z]\w*(?:->\w+)*\([^;]*\));\s*$/) {
                push @all, join "\t", $ARGV, $n, $-[1], length $1, "(void)0";
            }
            while ($l =~ / (==|!=|<=?|>=?|&&|\|\||\+=?|-=?|\|=|&|\|) /g) {
                next if !$other{$1};
                push @all, join "\t", $ARGV, $n, $-[1], length $1, $other{$1};
            }
        }
        END {
            srand $ENV{SEED};
            for my $i (0 .. $#all) {
                my $j = $i + int(rand(@all - $i));
                @all[$i, $j] = @all[$j, $i];
            }
            # In this order, so that what --minutes cuts off is spread as well.
            my %before;
            my @turns = sort { $$a[0] <=> $$b[0] }
                map { /^\S+/; [$before{$&}++, $_] } @all;
            my $want = $ENV{COUNT} < @all ? $ENV{COUNT} : @all;
            print "$$_[1]\n" for @turns[0 .. $want - 1]
        }' "${files[@]}"
}

# Which tests hold a file: names behind label and dot, as a regular expression.
tests_of() { # FILE
    case $(basename "$1" .c) in
    barrier*) echo 'barrier|litmus|signal_wrap' ;;
    buffer_memory | existing*) echo 'attach_memory' ;;
    keeper) echo 'event_|signal_wrap' ;;
    buffer* | layout | mapping* | pool) echo 'buffer_|layout|stats|host_space|event_limit' ;;
    copy*) echo 'copy_' ;;
    event*) echo 'event_|litmus|digests' ;;
    exchange*) echo 'exchange|signal_wrap' ;;
    fortran) echo 'fortran|cpp' ;;
    host_space) echo 'host_space' ;;
    join | publish) echo 'join' ;;
    mechanism | pad) echo 'mechanism|notify_|barrier' ;;
    meet) echo 'node_astray|buffer_(errors|many|options)|event_[bl]|digests' ;;
    node_print*) echo 'node_|info\.' ;;
    node_links) echo 'node_|placement|stats|buffer_degraded' ;;
    node*) echo 'node_|placement|stats|digests' ;;
    notify*) echo 'notify_|signal_wrap' ;;
    offer | visit*) echo 'visit|worker|join' ;;
    ring*) echo 'ring_' ;;
    signal_rescue) echo 'death|notify_' ;;
    stats) echo 'stats|sweep' ;;
    stream) echo 'copy_|event_|exchange|notify_streams' ;;
    trace) echo 'trace' ;;
    worker*) echo 'worker' ;;
    *) echo '.' ;;
    esac
}

if [ -n "$only_list" ]; then
    mutants
    exit
fi

# ---- The copy, built and tested as it is -------------------------------------
mkdir -p "$place/tree" || stop "$place cannot be made"
place=$(cd "$place" && pwd)
tree=$place/tree build=$place/build results=$place/results.txt
say "copying to $tree"
rm -rf "$place/fresh" && mkdir "$place/fresh" || stop "$place cannot be written"
if git rev-parse --git-dir >/dev/null 2>&1; then
    git ls-files -co --exclude-standard -z
else
    find . \( -path './build*' -o -path ./.git \) -prune -o -type f -print0
fi | tar --null --ignore-failed-read -T - -cf - 2>/dev/null |
    tar -C "$place/fresh" -xf - || stop "the tree cannot be copied"
# With the time of now, and only what differs: a change may be older than what
# was built of a copy before it, and what a run that was ended had changed is.
cd "$place/fresh" || exit 1
find . -type f -print0 | while IFS= read -r -d '' file; do
    cmp -s "$file" "$tree/$file" ||
        { mkdir -p "$tree/${file%/*}" && cat "$file" >"$tree/$file" &&
            chmod --reference="$file" "$tree/$file"; }
done
cd "$tree" || exit 1
rm -rf "$place/fresh"
[ ! -e "$place/changed" ] || xargs touch <"$place/changed"
say "building in $build"
[ -e "$build/CMakeCache.txt" ] || generator=(-G Ninja)
cmake -S "$tree" -B "$build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Debug \
    -DWHARF_WERROR=OFF -DWHARF_BUILD_EXAMPLES=OFF >"$place/build.log" &&
    cmake --build "$build" --parallel "$(nproc)" >>"$place/build.log" ||
    stop "the copy cannot be built, see $place/build.log"

chosen_tests=() # of ctest, by `choose_tests TESTS`
choose_tests() {
    chosen_tests=(--test-dir "$build" -R "^(unit|mp|fake|fault)\\.($1)"
        -E '\.np(8|16|32|64)(\.|$)|cycles|fake\.sweep\.np3|sweep.*no_handles')
}

# Many hold the library in themselves, and would go on with that of before.
programs_of() { # TESTS
    choose_tests "$1"
    ctest "${chosen_tests[@]}" --show-only=json-v1 |
        sed -n "s|^ *\"$build/.*/\(t_[a-z0-9_]*\)\",*\$|\1|p" | sort -u
}

run_tests() { # TESTS: the tests that failed, and how if not by themselves
    choose_tests "$1"
    ctest "${chosen_tests[@]}" --timeout 60 --stop-on-failure --parallel 1 2>&1 |
        sed -n 's/^[[:space:]]*[0-9]* - \([^ ]*\) (\(.*\))$/\1 \2/p' |
        sed 's/ Failed$//'
}

# Every call that can fail fails there, whatever file it is in.
everywhere='sweep'

# A file whose tests fail already can tell nothing.
declare -A usable
is_usable() { # FILE
    local tests
    tests=$(tests_of "$1")
    if [ -z "${usable[$tests]:-}" ]; then
        # Twice: a test that other work on the machine has upset passes then.
        usable[$tests]=$(run_tests "$tests")
        [ -z "${usable[$tests]}" ] || usable[$tests]=$(run_tests "$tests")
        [ -n "${usable[$tests]}" ] || usable[$tests]=yes
    fi
    [ "${usable[$tests]}" = yes ]
}

# ---- One at a time -----------------------------------------------------------
killed=0 survived=0 dead=0 left_out=0
# What a mutant left running, a worker without its order to die, say, would take
# the processor from the next ones.
end_leftovers() {
    local process
    for process in /proc/[0-9]*; do
        case $(readlink "$process/exe") in
        "$build"/*) kill -9 "${process#/proc/}" 2>/dev/null ;;
        esac
    done
}

one() { # FILE LINE COLUMN LENGTH REPLACEMENT
    local file=$1 line=$2 from=$SECONDS tests by='' what result programs
    if ! is_usable "$file"; then
        echo "left out  $file: ${usable[$(tests_of "$file")]} fails by itself"
        left_out=$((left_out + 1))
        return
    fi
    tests=$(tests_of "$file")
    cp "$file" "$place/original"
    echo "$file" >"$place/changed"
    AT=$2 COLUMN=$3 LENGTH=$4 NEW=$5 perl -pe '
        substr($_, $ENV{COLUMN}, $ENV{LENGTH}) = $ENV{NEW} if $. == $ENV{AT}' \
        "$place/original" >"$file"
    what=$(sed -n "${line}s/^ *//p" "$place/original")
    mapfile -t programs < <(programs_of "$tests|$everywhere")
    if ! cmake --build "$build" --parallel "$(nproc)" --target wharf \
        "${programs[@]}" >"$place/build.log" 2>&1; then
        result='not built' dead=$((dead + 1))
    else
        by=$(run_tests "$tests")
        [ -n "$by" ] || by=$(run_tests "$everywhere")
        if [ -n "$by" ]; then
            result=killed killed=$((killed + 1))
        else
            result=survived survived=$((survived + 1))
        fi
    fi
    end_leftovers
    printf '%-9s %4d s  %s:%s  %s  ->  %s%s\n' "$result" $((SECONDS - from)) \
        "$file" "$line" "$what" "$5" "${by:+  ($(head -n 1 <<<"$by"))}"
    # Not by mv: the time of the file must change, too. It stays listed in
    # `changed` until the next one is, since it is not built yet.
    cp "$place/original" "$file"
}

mapfile -t chosen < <(mutants)
[ ${#chosen[@]} -gt 0 ] || stop "there is nothing to change in these files"
say "${#chosen[@]} mutants, seed $seed"
# First of all: what was built is still right.
for mutant in "${chosen[@]}"; do
    is_usable "${mutant%%$'\t'*}" ||
        say "${mutant%%$'\t'*}: ${usable[$(tests_of "${mutant%%$'\t'*}")]} fails by itself"
done
[ -z "$(run_tests "$everywhere")" ] || stop "the sweep fails by itself"
begun=$SECONDS
: >"$results"
for mutant in "${chosen[@]}"; do
    if [ "$minutes" -gt 0 ] && [ $((SECONDS - begun)) -ge $((minutes * 60)) ]; then
        break
    fi
    IFS=$'\t' read -r file line column length new <<<"$mutant"
    one "$file" "$line" "$column" "$length" "$new" </dev/null >"$place/one.txt"
    tee -a "$results" <"$place/one.txt"
done
{
    echo
    grep '^survived' "$results"
    tried=$((killed + survived))
    echo "$killed of $tried killed ($((tried ? 100 * killed / tried : 0)) %)," \
        "$survived survived, $dead not built, $left_out left out," \
        "$((SECONDS - begun)) s"
} >"$place/one.txt"
tee -a "$results" <"$place/one.txt"
