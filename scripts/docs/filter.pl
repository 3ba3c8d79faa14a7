#!/usr/bin/env perl
# SPDX-License-Identifier: MIT
#
# filter.pl HEADER: a public header as Doxygen wants to read it, on stdout; the
# headers themselves are written for people. Every line stays on its line, so
# that Doxygen's complaints name the right one.
#
#   the comment above the guard      what the file is for
#   a comment right above a thing    what that thing is
#   a comment behind a thing         what that thing is
#   X(NAME, 1, "meaning") in a list  an enumerator or a field with its meaning
#   indented lines                   an example or a table
use strict;
use warnings;

my $path = shift or die "usage: filter.pl HEADER\n";
open(my $file, '<', $path) or die "$path: $!\n";
my $text = do { local $/; <$file> };
my ($name) = $path =~ m{([^/]+)$};

sub lines_of { return $_[0] =~ tr/\n// }

# A macro "M(name, number, text) body" for one entry "X(a, 1, "b")" of a list.
sub instance {
    my ($parameters, $body, $entry) = @_;
    my @names = split /\s*,\s*/, $parameters;
    my @values = $entry =~ /\s*("(?:\\.|[^"\\])*"|[^,]+?)\s*(?:,|$)/g;
    my %value;
    @value{@names} = @values;
    $body =~ s/\b(\w+)\b/exists $value{$1} ? $value{$1} : $1/ge;
    $body =~ s/\s*##\s*//g;
    my ($meaning) = grep { /^"/ } reverse @values;
    $meaning =~ s/^"|"$//g;
    return "$body /**< $meaning */ ";
}

# Where a list is used to make enumerators or fields, they are written out.
sub expand_lists {
    my (%list, %about);
    $about{$2} = $1 while $text =~
        m{^/\*\s*[* ]*((?:(?!\*/).)*?)\*/\n#define (\w+_LIST)\(X\)}gms;
    while ($text =~ /^#define (\w+_LIST)\(X\)((?:.*\\\n)*.*)/gm) {
        my ($list, $entries) = ($1, $2);
        $entries =~ s{/\*.*?\*/}{}gs;
        $list{$list} = [$entries =~ /\bX\(((?:"(?:\\.|[^"\\])*"|[^()"])*)\)/g];
    }
    # What was said above the list is true of what is made from it.
    $text =~ s{\n\n(typedef \w+ \w+ \{\n(?:.*\n)??#define \w+.*\n\s*(\w+_LIST)\()}{
        my ($made, $sentence) = ($1, $about{$2} // '');
        $sentence =~ s/\s*\n\s*\*?\s*/ /g;
        $sentence =~ s/\..*//s;
        "\n/* $sentence. */\n$made"}ge;
    $text =~ s{^\#define\ (\w+)\(([\w, ]+)\)\ (.*)\n
               \s*(\w+_LIST)\(\1\)\n
               \#undef\ \1$}{
        my ($parameters, $body, $list) = ($2, $3, $4);
        die "$path: no list $list\n" unless $list{$list};
        join('', map { instance($parameters, $body, $_) } @{$list{$list}}) .
            "\n\n"}gmex;
}

# The lines of a comment, where indented ones are set as they stand.
sub mark_examples {
    my @lines = split /\n/, $_[0], -1;
    my ($inside, $start) = (0, 0);

    for my $i (0 .. $#lines) {
        my $indented = $lines[$i] =~ /^\s*\*\s{3,}(?!- |\S+ +-)\S/;
        my $blank = $lines[$i] =~ /^\s*\*\s*$/;
        if (!$inside && $indented && $i > 0 &&
            $lines[$i - 1] =~ /^\s*\*\s*$|:$/) {
            ($inside, $start) = (1, $i - 1);
        } elsif ($inside && !$indented &&
                 !($blank && ($lines[$i + 1] // '') =~ /^\s*\*\s{3,}\S/)) {
            # A table is no C.
            my $kind = "@lines[$start + 1 .. $i - 1]" =~ /;/ ? 'c' : 'unparsed';
            $lines[$start] .= " \@code{.$kind}";
            $lines[$i - 1] .= '@endcode';
            $inside = 0;
        }
    }
    return join("\n", @lines);
}

# Characters that mean something to Doxygen and nothing to the headers.
sub escape {
    my $comment = shift;
    my @parts = split /(\@code.*?\@endcode)/s, $comment;
    for my $part (@parts) {
        next if $part =~ /^\@code/;
        $part =~ s/([<>#%])/\\$1/g unless $part =~ m{^/\*\*<};
    }
    return join('', @parts);
}

sub document {
    my $comment = shift;
    $comment = escape(mark_examples($comment));
    $comment =~ s/^(\s*\*) \@return nothing$/$1/gm;
    return $comment;
}

# The first comment is the licence; the second one tells of the file.
sub head {
    my $start = $name eq 'wharf.h' ? '@mainpage Wharf' : "\@file $name";
    $text =~ s{\A/\*.*?\*/\n/\*(.*?)\*/}{
        my $about = document("*$1");
        $about =~ s/^\*//;
        "/** $start\n *$about*/"}se or die "$path: no comment at its head\n";
}

# "#define NAME value /* text */", over several lines or not.
sub constants {
    $text =~ s{^(\#define\ \w+)((?:\ |\\\n)[^\n/]*?(?:\\\n\s*)?[^\n/]*?)
               /\*(?!\*)((?:(?!\*/).)*)\*/[ ]*$}{
        my ($define, $value, $meaning) = ($1, $2, $3);
        my $lines = lines_of($&);
        s/\s*\\\n\s*/ /g for $value, $meaning;
        s/\s+/ /g for $meaning;
        $value =~ s/\s+$//;
        "$define$value /**<$meaning*/" . "\n" x $lines}gmsex;
}

sub comments {
    # Dividers, and comments that stand alone, are for readers of the source.
    $text =~ s{^[ \t]*/\*\s*----.*?\*/}{"\n" x lines_of($&)}gmse;
    # Behind a field or an enumerator.
    $text =~ s{^([ \t]*[^\s/*#\\][^\n]*?[\w;,\]]\ *)/\*(?![*])((?:(?!\*/).)*)\*/}{
        "$1/**<" . escape($2) . "*/"}gmse if $name =~ /\.h$/;
    # Above a declaration.
    $text =~ s{^([ \t]*)/\*(?!\*)((?:(?!\*/).)*)\*/(?=\n[ \t]*[\w\#~])}{
        "$1/**" . $2 . "*/"}gmse;
    $text =~ s{/\*\*(?!<)(?!\ \@(?:file|mainpage))((?:(?!\*/).)*)\*/}{
        '/**' . document($1) . '*/'}gse;
}

head();
expand_lists();
constants();
comments();
print $text;
