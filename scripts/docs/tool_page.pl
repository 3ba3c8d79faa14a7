#!/usr/bin/env perl
# SPDX-License-Identifier: MIT
#
# tool_page.pl VERSION SUMMARY PROGRAM [HELP-OPTION...]: the manual page of a
# tool, section 1, on stdout, from what the tool itself tells: --help, and each
# further HELP-OPTION (such as "--topology --help") as a section of its own.
use strict;
use warnings;

my ($version, $summary, $program, @more) = @ARGV;
die "usage: tool_page.pl VERSION SUMMARY PROGRAM [HELP-OPTION...]\n"
    unless defined $program;
my ($name) = $program =~ m{([^/]+)$};

sub roff {
    my $text = shift;
    $text =~ s/\\/\\e/g;
    $text =~ s/-/\\-/g;
    $text =~ s/^([.'])/\\&$1/gm;
    return $text;
}

sub told {
    my @command = ($program, split / /, shift);
    open(my $pipe, '-|', @command) or die "$program: $!\n";
    my $text = do { local $/; <$pipe> };
    close($pipe) or die "@command failed\n";
    die "@command told nothing\n" unless length $text;
    return $text;
}

# "usage: a", "       b": each a line.
sub synopsis {
    my $usage = shift;
    my @lines = map { s/^(usage:)?\s+//r } split /\n/, $usage;
    return join(".br\n", map { ".B " . roff($_) . "\n" } @lines);
}

# Blocks of "  term  text" become lists, others paragraphs.
sub body {
    my $text = '';
    for my $block (@_) {
        if ($block !~ /^  \S/) {
            $text .= ".PP\n" . roff($block) . "\n";
            next;
        }
        for my $item (split /\n(?=  \S)/, $block) {
            $item =~ s/\n\s+/ /g;
            my ($term, $meaning) = $item =~ /^  (\S.*?)(?:  +(.*))?$/s;
            $text .= ".TP\n.B " . roff($term) . "\n" . roff($meaning // '') . "\n";
        }
    }
    return $text;
}

my ($usage, @help) = split /\n\n+/, told('--help') =~ s/\n+\z//r;
$usage =~ /^usage: / or die "$program --help does not begin with its usage\n";
print ".\\\" Made from `$name --help'; do not edit.\n",
    ".TH " . roff($name) . " 1 \"\" \"Wharf $version\" \"Wharf\"\n.nh\n.ad l\n",
    ".SH NAME\n" . roff($name) . " \\- $summary\n",
    ".SH SYNOPSIS\n", synopsis($usage), ".SH DESCRIPTION\n", body(@help);
for my $option (@more) {
    my ($usage, @blocks) = split /\n\n+/, told($option) =~ s/\n+\z//r;
    my ($title) = $option =~ /^--(\w+)/;
    print ".SH " . uc($title) . "\n";
    if ($usage =~ /^usage: /) {
        print synopsis($usage), body(@blocks);
    } else {
        # The settings: "NAME=values", indented meaning and default.
        for my $setting ($usage, @blocks) {
            my ($head, @rest) = split /\n\s*/, $setting;
            print ".TP\n.B " . roff($head) . "\n",
                join("\n.br\n", map { roff($_) } @rest), "\n";
        }
    }
}
print ".SH EXIT STATUS\n0: done; 1: a failure, explained on standard error; ",
    "2: wrong usage.\n.SH SEE ALSO\n", join(",\n", map { ".BR " . roff($_) }
    grep { !/^\Q$name\E / } 'wharf-info (1)', 'wharf-bench (1)', 'wharf (3)'), "\n";
