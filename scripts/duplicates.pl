#!/usr/bin/env perl
# SPDX-License-Identifier: MIT
#
# duplicates.pl [-n TOKENS] FILE...: logic that stands in two functions of C.
# Prints each pair of places that have the same TOKENS (72) tokens or more in a
# row; exit code 1 if there is one.
#
# Variables, types, numbers and texts count as equal, so that a copy with
# other names is found; names of functions, members, constants in capitals and
# keywords must be the same. A pair that shall stay is marked in either function
# by a comment that begins with "Alike:" and says why.
#
# Not seen: what was copied and then changed every few lines, the same thought
# written another way, and text outside of functions.
use strict;
use warnings;

my $least = 72;
if (@ARGV && $ARGV[0] eq '-n') {
    (undef, $least) = splice(@ARGV, 0, 2);
    die "duplicates.pl: -n wants a number above 9\n"
        if !defined $least || $least !~ /^\d+$/ || $least < 10;
}

my %keyword = map { $_ => 1 } qw(break case continue default do else for goto
    if return sizeof switch while);

# The formatter puts the braces of a function, and no others but those of
# types and tables, into column 1.
my (@token, @line, @function, @name, @excused);
for my $file (@ARGV) {
    open(my $in, '<', $file) or die "duplicates.pl: $file: $!\n";
    local $/;
    my $text = <$in>;
    while ($text =~ /^([^\s{}#\/][^{};]*\)[^{};]*)\n\{\n(.*?)^\}/gms) {
        my ($head, $body, $at) = ($1, $2, $-[2]);
        my $number = 1 + (substr($text, 0, $at) =~ tr/\n//);
        push @name, $head =~ /(\w+)\s*\(/ ? "$file: $1" : $file;
        push @excused, $body =~ m{/\*[\s*]*Alike:} ? 1 : 0;
        while ($body =~ m{\G(?:(\s+|/\*.*?\*/|\\\n)|("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|([A-Za-z_]\w*)|(\.?\d[\w.]*)|(->|<<|>>|[-+*/&|=!<>^%]=|&&|\|\||\+\+|--|.))}gs) {
            my ($blank, $quoted, $word, $digits, $sign) = ($1, $2, $3, $4, $5);
            if (defined $blank) { $number += $blank =~ tr/\n//; next; }
            my $before = @token ? $token[-1] : '';
            my $rest = substr($body, pos $body, 80);
            push @token, defined $quoted ? '""' : defined $digits ? '0'
                : defined $sign ? $sign
                : $keyword{$word} || $rest =~ /^\s*\(/ || $word =~ /^[A-Z]\w+$/
                || $before eq '.' || $before eq '->' ? $word : 'v';
            push @line, $number;
            push @function, $#name;
            $number += ($quoted // '') =~ tr/\n//;
        }
    }
}
die "duplicates.pl: no functions in these files\n" if !@name;

# Where each run of $least tokens of one function begins.
my %places;
for my $i (0 .. @token - $least) {
    next if $function[$i] != $function[$i + $least - 1];
    push @{$places{join ' ', @token[$i .. $i + $least - 1]}}, $i;
}

my ($found, %told) = (0);
for my $run (sort { $a->[0] <=> $b->[0] } grep { @$_ > 1 } values %places) {
    for my $x (0 .. $#$run - 1) {
        for my $y ($x + 1 .. $#$run) {
            my ($i, $j) = ($run->[$x], $run->[$y]);
            my ($f, $g) = ($function[$i], $function[$j]);
            next if $j < $i + $least || $excused[$f] || $excused[$g];
            # Only where it begins.
            next if $i > 0 && $function[$i - 1] == $f &&
                $function[$j - 1] == $g && $token[$i - 1] eq $token[$j - 1];
            next if $told{"$f $g"}++;
            my $n = $least;
            $n++ while $j + $n < @token && $function[$i + $n] == $f &&
                $function[$j + $n] == $g && $token[$i + $n] eq $token[$j + $n];
            print "$name[$f], lines $line[$i]-$line[$i + $n - 1], and ",
                "$name[$g], lines $line[$j]-$line[$j + $n - 1]: $n tokens\n";
            $found = 1;
        }
    }
}
exit $found;
