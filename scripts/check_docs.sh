#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# check_docs.sh [HEADER...]: every function that the public headers declare has
# a comment block right before it that says whether the call is collective
# ("Collective on ..." or "Local...") and what it returns (@return); every
# public type has a comment; every parameter is described, and every one that
# is described exists.
# Names each place that lacks something; exit code 1 if there is one.
set -u
cd "$(dirname "$0")/.." || exit 1
[ $# -gt 0 ] || set -- include/wharf/*.h include/wharf/*.cuh

broken=0
for header; do
    [ -e "$header" ] || continue
    perl -0777 -ne '
        my ($bad, $seen) = (0, 0);
        sub say_at { my ($at, $what) = @_;
            my $line = 1 + (substr($_, 0, $at) =~ tr/\n//);
            print "$ARGV:$line: $what\n"; $bad = 1; }
        # A block, or nothing, then the declaration up to its end.
        while (m~(/\*\*(?:(?!\*/).)*\*/\n)?((?:^static inline[^;]*?|^WHARF_API\b[^;]*?)\b(wharf_\w+)\s*\(([^;{]*)\))~gsm) {
            my ($block, $name, $parameters, $at) = ($1, $3, $4, $-[2]);
            $seen++;
            next if $2 =~ /^static inline/ && !defined $block;
            if (!defined $block) { say_at($at, "$name has no block"); next; }
            $block =~ /^ \* (Collective on|Local)\b/m or
                say_at($at, "$name: neither Collective on ... nor Local");
            $block =~ /^ \* \@return\b/m or say_at($at, "$name: no \@return");
            my %described;
            while ($block =~ /\@param(?:\[[a-z,]+\])?\s+(\w+(?:, \w+)*)/g) {
                for my $p (split /,\s*/, $1) {
                    $described{$p} = 1;
                    $parameters =~ /\b\Q$p\E\b/ or
                        say_at($at, "$name: \@param $p does not exist");
                }
            }
            for my $p ($parameters =~ /(\w+)\s*(?:,|$)/g) {
                $described{$p} || $p eq "void" or
                    say_at($at, "$name: no \@param $p");
            }
        }
        while (/^typedef (?:struct|enum) \w+ \{/gm) {
            my $before = substr($_, 0, $-[0]);
            # An enum made from a list: the comment stands above the list.
            $before =~ s/^#define \w+_LIST\(X\)(?:.*\\\n)*.*\n\n\z//m;
            $before =~ m{\*/\n\z} or say_at($-[0], "type without a comment: $&");
        }
        $seen > 0 || $ARGV =~ m{/(wharf|version|topo|cuda)\.h$|\.cuh$} or
            say_at(0, "no declaration found: is the check blind here?");
        exit $bad' "$header" || broken=1
done
[ $broken -eq 0 ] || exit 1
