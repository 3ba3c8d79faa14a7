#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# check.sh [--skip-missing] [all|CHECK...]: the rules of the house that a machine
# can hold. Without arguments those that take seconds: layers lists format docs
# symbols sizes words duplicates shell; `all` runs tidy and cppcheck too, which
# take minutes. Exit code 0: kept, 1: broken (each place is named). A check
# whose tool is missing says so; one that was asked for by name is then broken,
# or with --skip-missing ends with 77 if no other one ran. `symbols` reads the
# library named by WHARF_LIBRARY, or build/; `tidy` a build directory, build/ or
# WHARF_BUILD.
# --declared only prints the names of the public calls.
set -u
shopt -s lastpipe # complain runs in this shell and sets its variables
cd "$(dirname "$0")/.." || exit 1
export LC_ALL=C

broken=0

complain() { # MESSAGE...: lines on stdin are the places
    local places
    places=$(cat)
    [ -n "$places" ] || return 0
    printf '%s\n' "$places"
    printf -- '-- %s\n\n' "$*"
    broken=1
}

sources() { # EXTENSIONS DIRECTORY...
    local extensions=$1
    shift
    find "$@" -type f -regextype posix-extended -regex ".*\\.($extensions)" \
        2>/dev/null | sort
}

# Prints "file:line: text" of code that matches, comments and strings left out.
code_grep() { # PATTERN FILE...
    local pattern=$1
    shift
    [ $# -gt 0 ] || return 0
    PATTERN=$pattern perl -0777 -ne '
        s{(/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*")}
         {my $t = $1; my $n = ($t =~ tr/\n//); $t =~ /^"/ && $t !~ /\.(h|cuh)"$/
          ? "\"\"" : $t =~ /^"/ ? $t : "\n" x $n}gsex;
        my $n = 0;
        for my $l (split /\n/) {
            $n++;
            print "$ARGV:$n: $l\n" if $l =~ /$ENV{PATTERN}/;
        }' "$@"
}

includes_only() { # DIRECTORY ALLOWED-DIRECTORIES FOREIGN-HEADERS
    local files
    mapfile -t files < <(sources 'c|h|cu|cuh' "runtime/$1")
    code_grep '^\s*#\s*include\s+"' "${files[@]}" |
        grep -vE "\"(wharf|$2)/" |
        complain "runtime/$1 may include wharf/ and ($2)/ only"
    code_grep '^\s*#\s*include\s+[<"](mpi|cuda[a-z_]*|nvml|hwloc[a-z_/]*)\.h' \
        "${files[@]}" | grep -vE "[<\"]($3)\.h" |
        complain "runtime/$1 must not include this foreign header"
}

check_layers() {
    local files
    includes_only base 'base' 'none'
    includes_only comm 'base|comm' 'mpi'
    includes_only topo 'base|topo' 'hwloc[a-z_/]*'
    includes_only device 'base|device' 'cuda[a-z_]*|nvml'
    includes_only core 'base|comm|topo|device|core' 'mpi'

    mapfile -t files < <(sources 'c|h' runtime/base runtime/topo runtime/device \
        runtime/core include)
    code_grep '\bP?MPI_[A-Z][a-z]\w*\s*\(' "${files[@]}" |
        complain "MPI is called in runtime/comm only"
    mapfile -t files < <(sources 'c|h' runtime/base runtime/topo runtime/comm \
        runtime/core)
    code_grep '\b(cu|cuda|nvml)[A-Z]\w*\s*\(' "${files[@]}" |
        complain "CUDA is called in runtime/device only"
    mapfile -t files < <(sources 'c|h' runtime/base runtime/topo runtime/comm \
        runtime/core runtime/tools)
    code_grep '\bdl(open|sym)\s*\(' "${files[@]}" |
        complain "libraries are loaded at run time in runtime/device only"
    mapfile -t files < <(sources 'c|h|cu' runtime/base runtime/device \
        runtime/comm runtime/core)
    code_grep '\bhwloc_\w+\s*\(' "${files[@]}" |
        complain "hwloc is called in runtime/topo only"
    mapfile -t files < <(sources 'c' runtime/core)
    code_grep '^\s*#\s*(if|ifdef|ifndef|elif)\b' "${files[@]}" |
        complain "runtime/core has no conditional compilation: choose in CMake"
    mapfile -t files < <(sources 'c|cu|h|cpp' mpi_examples runtime/tools)
    code_grep '^\s*#\s*include\s+"(base|comm|topo|device|core)/' "${files[@]}" |
        complain "examples and tools see include/ only"
    mapfile -t files < <(sources 'h|hpp|cuh' include)
    code_grep '^\s*#\s*include\s+[<"](base|comm|topo|device|core|hwloc)' \
        "${files[@]}" | complain "public headers stand alone"
}

# A file that no list names would silently not be built, or not be tested.
check_lists() {
    local file name
    sources 'c|cu|cpp|f90' runtime mpi_examples tests | while read -r file; do
        case $file in
        runtime/fortran/*) name=$(basename "$file") ;;
        runtime/*) name=${file#runtime/} ;;
        */fake_cuda/tests/*) name=$(basename "${file%.c}" | sed 's/t_fake_//') ;;
        *) name=$(basename "${file%.*}") ;;
        esac
        grep -rqE --include=CMakeLists.txt --include='*.cmake' \
            "(^|[^A-Za-z0-9_])$name([^A-Za-z0-9_]|\$)" "${file%%/*}" ||
            echo "$file"
    done | complain "add this file to the CMakeLists.txt or list beside it"
}

check_format() {
    # Other versions of clang-format break lines elsewhere.
    local tool files
    for tool in clang-format-14 clang-format; do
        command -v "$tool" >/dev/null || continue
        "$tool" --version | grep -q 'version 14\.' || continue
        mapfile -t files < <(sources 'c|h|cu|cuh|cpp|hpp' include runtime \
            mpi_examples tests scripts)
        "$tool" --dry-run "${files[@]}" 2>&1 |
            sed -n 's/:[0-9:]* warning:.*//p' | uniq -c |
            sed 's/^ *\([0-9]*\) \(.*\)/\2: \1 places/' |
            complain "run $tool -i on these files"
        return
    done
    echo "skipped: format: clang-format 14 is not here"
    return 77
}

check_docs() {
    bash scripts/check_docs.sh </dev/null || broken=1
}

# Names of functions that the public headers declare.
declared_symbols() {
    perl -0777 -ne 's{/\*.*?\*/}{}gs; s/^\s*#.*?(?<!\\)$//gms;
        while (/\bWHARF_API\b[^;{]*?\b(wharf_\w+)\s*\(/g) { print "$1\n" }' \
        include/wharf/*.h | sort -u
}

# What runtime/DESIGN.md, "What a release keeps", says of names and versions:
# of the map's nodes, and of the symbols that nm lists on stdin.
broken_versions() { # SONAME
    SONAME=$1 perl -ne '
        BEGIN {
            local $/;
            open(my $header, "<", "include/wharf/version.h") or die;
            my %v = <$header> =~ /WHARF_VERSION_(MAJOR|MINOR) (\d+)/g;
            my $abi = $v{MAJOR} ? $v{MAJOR} : "0.$v{MINOR}";
            print "SONAME is $ENV{SONAME}, not libwharf.so.$abi\n"
                if $ENV{SONAME} ne "libwharf.so.$abi";
            open(my $file, "<", "runtime/wharf.map") or die;
            (my $map = <$file>) =~ s{/\*.*?\*/}{}gs;
            while ($map =~ /([\w.]+)\s*\{(.*?)\}\s*([\w.]*)\s*;/gs) {
                my ($node, $body, $before) = ($1, $2, $3);
                my ($public) = $body =~ /global:(.*?)(?:local:|$)/s;
                print "wharf.map: $node must follow ", $nodes[-1] // "none", "\n"
                    if $before ne ($nodes[-1] // "");
                print "wharf.map: $node: local: *; goes into the first node\n"
                    if !@nodes != ($body =~ /local:\s*\*;/);
                push @nodes, $node;
                push @open, $node if $public =~ /\*/;
                $node_of{$_} = $node for $public =~ /(\w+);/g;
            }
            print "wharf.map: the last node must be WHARF_$v{MAJOR}.$v{MINOR}\n"
                if ($nodes[-1] // "") ne "WHARF_$v{MAJOR}.$v{MINOR}";
            print "wharf.map: before 1.0 there is one node: the SONAME is new\n"
                if !$v{MAJOR} && @nodes != 1;
            print "wharf.map: $_ is released and names each of its calls\n"
                for grep { $_ ne $nodes[-1] } @open;
        }
        next unless /^\S+ [^A] (\w+)(?:@+(\S+))?$/;
        my $node = delete $node_of{$1} // $nodes[-1];
        print "$1 has the version ", $2 // "none", ", not $node\n"
            if ($2 // "") ne $node;
        END { print "wharf.map: $_ of $node_of{$_} is gone\n"
            for sort keys %node_of }'
}

check_symbols() {
    local library=${WHARF_LIBRARY:-build/runtime/libwharf.so} exported soname
    if [ ! -e "$library" ] || ! command -v nm >/dev/null; then
        echo "skipped: symbols: $library (set WHARF_LIBRARY) and nm are needed"
        return 77
    fi
    # A: the version node of the symbol map.
    exported=$(nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' |
        sed 's/@.*//' | sort -u)
    grep -v '^wharf_' <<<"$exported" |
        complain "the library shows symbols that are not wharf_"
    comm -23 <(printf '%s\n' "$exported") <(declared_symbols) |
        complain "exported, but declared in no public header"
    comm -13 <(printf '%s\n' "$exported") <(declared_symbols) |
        complain "declared in a public header, but not exported"
    soname=$(readelf -d "$library" | sed -n 's/.*SONAME.*\[\(.*\)\].*/\1/p')
    nm -D --defined-only "$library" | broken_versions "$soname" |
        complain "the rules of names and versions (runtime/DESIGN.md) are broken"
}

check_sizes() {
    local files
    mapfile -t files < <(sources 'c|h|cu|cuh|cpp|hpp|f90|py|sh|cmake|txt' \
        include runtime mpi_examples tests scripts)
    # The formatter puts a function's braces into column 1, and those of C++
    # classes and namespaces.
    awk 'FNR == 1 { start = 0 }
        /^\{/ && before !~ /^(class|struct|namespace|template)/ { start = FNR }
        { before = $0 }
        /^\}/ && start { if (FNR - start - 1 > 80)
            printf "%s:%d: %d lines\n", FILENAME, start, FNR - start - 1
            start = 0 }' "${files[@]}" |
        complain "a function has at most 80 lines"
    wc -l "${files[@]}" | awk '$2 != "total" && $1 > 600' |
        complain "a file has at most 600 lines"
    mapfile -t files < <(sources 'c|h|cu|cuh|cpp|hpp|f90|py' include runtime \
        mpi_examples tests)
    awk 'length > 80 { printf "%s:%d: %d columns\n", FILENAME, FNR, length }' \
        "${files[@]}" | complain "a line has at most 80 columns"
    for file in "${files[@]}"; do
        head -n 1 "$file" | grep -q 'SPDX-License-Identifier: MIT' ||
            echo "$file"
    done | complain "the first line names the licence"
}

check_words() {
    local list
    if git rev-parse --git-dir >/dev/null 2>&1; then
        mapfile -t list < <(git ls-files -co --exclude-standard)
    else
        mapfile -t list < <(find . \( -path './build*' -o -path ./.git \) \
            -prune -o -type f -print)
    fi
    # Bracketed letters keep this script from finding itself.
    grep -nIE '\b(T[O]DO|F[I]XME|X[X]X|H[A]CK)\b' "${list[@]}" /dev/null |
        complain "unfinished work is finished or an issue, not a comment"
    grep -nIE '(^|[^A-Za-z0-9_.$}/])/(w[o]rk|h[o]me|r[o]ot)/' "${list[@]}" \
        /dev/null | complain "paths of one machine do not belong here"
    grep -nE '^(<<<<<<<|>>>>>>>) ' "${list[@]}" /dev/null |
        complain "a merge was left half done"
    grep -nIE '[[:blank:]]+$' "${list[@]}" /dev/null | grep -v '\.md:' |
        complain "blanks at the end of a line"
}

case ${1:-} in
-h | --help) sed -n '4,13s/^# \{0,1\}//p' scripts/check.sh && exit 0 ;;
--declared) declared_symbols && exit ;; # for scripts/docs/pages.sh
esac

# shellcheck source=scripts/check_code.sh
. scripts/check_code.sh

fast=(layers lists format docs symbols sizes words duplicates shell)
skip_missing=''
if [ "${1:-}" = --skip-missing ]; then
    skip_missing=1
    shift
fi
checks=("$@")
case ${1:-} in
'') checks=("${fast[@]}") skip_missing=1 ;;
all) checks=("${fast[@]}" cppcheck tidy) skip_missing=1 ;;
esac
ran=()
for check in "${checks[@]}"; do
    if ! declare -F "check_$check" >/dev/null; then
        echo "check.sh: no check named $check; see --help" >&2
        exit 1
    fi
    "check_$check"
    if [ $? -ne 77 ]; then
        ran+=("$check")
    elif [ -z "$skip_missing" ]; then
        broken=1
    fi
done
[ $broken -eq 0 ] || exit 1
[ ${#ran[@]} -gt 0 ] || exit 77
echo "kept: ${ran[*]}"
