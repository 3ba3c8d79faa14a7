#!/usr/bin/env perl
# SPDX-License-Identifier: MIT
#
# call_pages.pl XML-DIRECTORY VERSION OUTPUT-DIRECTORY: manual pages, section 3,
# from what Doxygen read in the public headers: one for each call, one for each
# struct and enumeration, one for each header, and wharf(3) with all calls.
use strict;
use warnings;

my ($xml, $version, $output) = @ARGV;
die "usage: call_pages.pl XML-DIRECTORY VERSION OUTPUT-DIRECTORY\n"
    unless defined $output;

# ---- XML, as far as Doxygen writes it: elements, attributes, text ----------

my %entity = (lt => '<', gt => '>', quot => '"', apos => "'", amp => '&');

sub unescape {
    my $text = shift;
    $text =~ s/&(\w+);/$entity{$1} \/\/ "&$1;"/ge;
    return $text;
}

sub parse {
    my $path = shift;
    open(my $file, '<', $path) or die "$path: $!\n";
    my $text = do { local $/; <$file> };
    my @open = ({name => '', child => []});
    while ($text =~ m{<([/?!]?)([\w:]+)([^>]*?)(/?)>|([^<]+)}g) {
        my ($mark, $name, $attributes, $empty, $words) = ($1, $2, $3, $4, $5);
        if (defined $words) {
            push @{$open[-1]{child}}, unescape($words);
        } elsif ($mark eq '/') {
            pop @open;
        } elsif ($mark eq '') {
            my %attribute = $attributes =~ /([\w:]+)="([^"]*)"/g;
            my $node = {name => $name, attribute => \%attribute, child => []};
            push @{$open[-1]{child}}, $node;
            push @open, $node unless $empty;
        }
    }
    return $open[0];
}

sub children { # NODE NAME
    my ($node, $name) = @_;
    return grep { ref && $_->{name} eq $name } @{$node->{child}};
}

sub child { return (children(@_))[0] }

sub all { # NODE NAME: at any depth
    my ($node, $name) = @_;
    return map { (($_->{name} eq $name ? $_ : ()), all($_, $name)) }
        grep { ref } @{$node->{child}};
}

sub plain {
    my $node = shift;
    return '' unless $node;
    my $text = join('', map { !ref ? $_ : $_->{name} eq 'sp' ? ' ' : plain($_) }
        @{$node->{child}});
    $text =~ s/^\s+|\s+$//g;
    return $text;
}

# ---- From there to roff ----------------------------------------------------

sub roff {
    my $text = shift;
    $text =~ s/\\/\\e/g;
    $text =~ s/-/\\-/g;
    $text =~ s/^([.'])/\\&$1/gm;
    return $text;
}

# Text that runs on in lines of any length.
sub words {
    my $node = shift;
    my $text = '';
    for my $part (@{$node->{child}}) {
        if (!ref $part) {
            (my $run = $part) =~ s/\s+/ /g;
            $text .= roff($run);
        } elsif ($part->{name} eq 'sp') {
            $text .= ' ';
        } elsif ($part->{name} =~ /^(emphasis|computeroutput|bold)$/) {
            my $font = $part->{name} eq 'emphasis' ? 'I' : 'B';
            $text .= "\\f$font" . words($part) . '\fR';
        } else {
            $text .= words($part);
        }
    }
    return $text;
}

sub filled {
    my $text = words(shift);
    $text =~ s/^\s+|\s+$//g;
    # The calls, as pages are named.
    $text =~ s/\b(wharf_\w+)\b(?!\.\w)/\\fB$1\\fR/g;
    return $text;
}

my $aside = qr/^(programlisting|verbatim|itemizedlist|parameterlist|simplesect)$/;

# The paragraphs, examples and lists of a description.
sub description {
    my $node = shift;
    my $page = '';
    for my $para (children($node, 'para')) {
        my @run;
        my $flush = sub {
            my $text = filled({child => [@run]});
            $page .= ".PP\n$text\n" if $text ne '';
            @run = ();
        };
        for my $part (@{$para->{child}}) {
            if (!ref $part || $part->{name} !~ $aside) {
                push @run, $part;
                next;
            }
            $flush->();
            $page .= example($part)
                if $part->{name} =~ /^(programlisting|verbatim)$/;
            $page .= list($part) if $part->{name} eq 'itemizedlist';
        }
        $flush->();
    }
    return $page;
}

sub example {
    my $node = shift;
    my @lines = $node->{name} eq 'verbatim' ? split(/\n/, plain($node)) :
        map { my $line = join('', code($_)); $line } children($node, 'codeline');
    return ".PP\n.in +4n\n.nf\n" .
        join("\n", map { roff($_) } @lines) . "\n.fi\n.in\n";
}

sub code {
    return map { !ref ? $_ : $_->{name} eq 'sp' ? ' ' : code($_) }
        @{$_[0]->{child}};
}

sub list {
    return join('', map { ".IP \\(bu 2\n" . filled(child($_, 'para')) . "\n" }
        children(shift, 'listitem'));
}

# ---- Pages -----------------------------------------------------------------

my (%page, %header);

sub head { # NAME SUMMARY
    my ($name, $summary) = @_;
    $summary =~ s/[.:]?\s*$//;
    return ".\\\" Made from the public headers; do not edit.\n" .
        ".TH " . roff($name) . " 3 \"\" \"Wharf $version\" \"Wharf\"\n.nh\n.ad l\n" .
        ".SH NAME\n" . roff($name) . " \\- $summary\n";
}

sub see { # NAME...
    my @names = @_;
    return ".SH SEE ALSO\n" .
        join(",\n", map { '.BR ' . roff($_) . ' (3)' } @names) . "\n";
}

# "type name(type a, type b);", folded, with names in italics.
sub declaration { # CALL WHAT-STANDS-BEFORE-IT
    my $call = shift;
    my $type = shift . plain(child($call, 'type'));
    my $start = ($type =~ /\*$/ ? $type : "$type ") . plain(child($call, 'name'));
    my @parameters = map {
        my $of = plain(child($_, 'type'));
        my $name = plain(child($_, 'declname'));
        my $default = child($_, 'defval');
        $of =~ s/ ([&*]+)$/ $1/;
        $of .= ' ' unless $of =~ /[*&]$/ || $name eq '';
        [$of, $name, $default ? ' = ' . plain($default) : '']
    } children($call, 'param');
    my $lines = ".nf\n\\fB" . roff("$start(") . '\fR';
    my $column = length("$start(");
    my $indent = $column > 40 ? 4 : $column;
    for my $i (0 .. $#parameters) {
        my ($of, $name, $default) = @{$parameters[$i]};
        my $end = $i == $#parameters ? ');' : ', ';
        my $length = length("$of$name$default$end");
        if ($column + $length > 76 && $i + $indent > 4) {
            $lines =~ s/ $//;
            $lines .= "\n" . ' ' x $indent;
            $column = $indent;
        }
        $lines .= '\fB' . roff($of) . '\fI' . roff($name) . '\fB' .
            roff("$default$end") . '\fR';
        $column += $length;
    }
    $lines .= '\fB' . (roff('void);')) . '\fR' unless @parameters;
    return "$lines\n.fi\n";
}

sub summary { return filled(child($_[0], 'briefdescription') // {child => []}) }

sub parameters {
    my $call = shift;
    my $text = '';
    for my $item (map { all($_, 'parameteritem') } children($call,
                                                     'detaileddescription')) {
        my @names = map { plain($_) } all($item, 'parametername');
        my $about = join("\n.IP\n", map { filled($_) }
            children(child($item, 'parameterdescription'), 'para'));
        $text .= ".TP\n\\fI" . join('\fR, \fI', map { roff($_) } @names) .
            "\\fR\n$about\n";
    }
    return $text;
}

sub answer {
    my @returns = grep { ($_->{attribute}{kind} // '') eq 'return' }
        all(child($_[0], 'detaileddescription'), 'simplesect');
    my $text = join("\n.PP\n", map { filled($_) }
                    map { children($_, 'para') } @returns);
    $text =~ s/; (?=WHARF_)/;\n.br\n/g;
    return $text;
}

sub call_page {
    my ($call, $header) = @_;
    my $name = plain(child($call, 'name'));
    my ($parameters, $returns) = (parameters($call), answer($call));
    my $about = description(child($call, 'detaileddescription'));
    my $summary = summary($call);
    die "$name: nothing is said of it\n" if $summary eq '';
    $page{$name} = head($name, $summary) . ".SH SYNOPSIS\n.nf\n" .
        ".B #include <wharf/" . ($header =~ /\.cuh$|^fortran/ ? $header : 'wharf.h')
        . ">\n.fi\n.PP\n" .
        declaration($call, $header =~ /\.cuh$/ ? '__device__ ' : '') .
        ".SH DESCRIPTION\n$summary\n$about" .
        ($parameters ne '' ? ".SH PARAMETERS\n$parameters" : '') .
        ($returns ne '' ? ".SH RETURN VALUE\n$returns\n" : '');
    push @{$header{$header}{calls}}, [$name, $summary];
}

# What a struct or an enumeration consists of.
sub type_page {
    my ($name, $type, $header, @members) = @_;
    my $summary = summary($type);
    $summary = "a type of wharf/$header" if $summary eq '';
    my $text = head($name, $summary) .
        ".SH SYNOPSIS\n.nf\n.B #include <wharf/$header>\n.fi\n" .
        ".SH DESCRIPTION\n$summary\n" .
        description(child($type, 'detaileddescription'));
    $text .= ".SH MEMBERS\n" if @members;
    for my $member (@members) {
        my @parts = $type->{name} eq 'memberdef' ? qw(name initializer) :
            qw(definition argsstring);
        my $what = join(' ', grep { $_ ne '' }
                        map { plain(child($member, $_)) } @parts);
        $what =~ s/\w+:://;
        $what =~ s/ \[/[/g;
        $what =~ s/(\w)(\*+) (\w)/$1 $2$3/;
        $text .= ".TP\n.B \"" . roff($what) . "\"\n" .
            join("\n", grep { $_ ne '' } summary($member),
                 map { filled($_) } children(child($member, 'detaileddescription'),
                                             'para')) . "\n";
    }
    $page{$name} = $text;
    push @{$header{$header}{types}}, [$name, $summary];
}

sub read_header {
    my $file = shift;
    my $compound = child(child($file, 'doxygen'), 'compounddef');
    my $header = plain(child($compound, 'compoundname'));
    return if $header !~ /\.(h|cuh)$/;
    $header{$header}{about} = $compound;
    for my $member (map { children($_, 'memberdef') }
                        children($compound, 'sectiondef')) {
        my $kind = $member->{attribute}{kind};
        my $name = plain(child($member, 'name'));
        if ($kind eq 'function' && summary($member) ne '') {
            call_page($member, $header);
        } elsif ($kind eq 'enum' && $name =~ /^wharf_/) {
            type_page($name, $member, $header, children($member, 'enumvalue'));
        }
    }
    for my $inner (children($compound, 'innerclass')) {
        my $type = child(child(parse("$xml/$inner->{attribute}{refid}.xml"),
                               'doxygen'), 'compounddef');
        type_page(plain($inner), $type, $header, map { children($_, 'memberdef') }
                  children($type, 'sectiondef'));
    }
}

sub index_of { # TITLE ENTRY...
    my ($title, @entries) = @_;
    return '' unless @entries;
    return ".SH $title\n" . join('', map {
        ".TP\n.BR " . roff($_->[0]) . " (3)\n$_->[1]\n" } @entries);
}

sub header_page {
    my $header = shift;
    my $about = $header{$header}{about};
    my $name = "wharf-$header";
    my @calls = @{$header{$header}{calls} // []};
    my @types = @{$header{$header}{types} // []};
    my $summary = summary($about);
    $page{$name} = head($name, $summary ne '' ? $summary : 'header of Wharf') .
        ".SH SYNOPSIS\n.nf\n.B #include <wharf/$header>\n.fi\n" .
        ".SH DESCRIPTION\n$summary\n" .
        description(child($about, 'detaileddescription')) .
        index_of('CALLS', @calls) . index_of('TYPES', @types) . see('wharf');
    # From each page to its header and to what stands beside it.
    for my $entry (@calls, @types) {
        $page{$entry->[0]} .= see($name, 'wharf', grep { $_ ne $entry->[0] }
                                  map { $_->[0] } @calls);
    }
}

sub overview {
    my $main = child(child(parse("$xml/indexpage.xml"), 'doxygen'), 'compounddef');
    my $text = head('wharf', 'shared GPU and host memory for MPI programs') .
        ".SH SYNOPSIS\n.nf\n.B #include <wharf/wharf.h>\n.fi\n.SH DESCRIPTION\n" .
        description(child($main, 'detaileddescription'));
    for my $header (sort keys %header) {
        my @calls = @{$header{$header}{calls} // []};
        next unless @calls;
        $text .= ".SH " . uc(roff("wharf/$header")) . "\n" . join('', map {
            ".TP\n.BR " . roff($_->[0]) . " (3)\n$_->[1]\n" } @calls);
    }
    $page{wharf} = $text . ".SH SEE ALSO\n.BR wharf\\-info (1),\n" .
        ".BR wharf\\-bench (1)\n";
}

my @files = glob("$xml/*_8h.xml $xml/*_8cuh.xml");
die "$xml: nothing from Doxygen\n" unless @files;
read_header(parse($_)) for @files;
header_page($_) for sort keys %header;
overview();
for my $name (sort keys %page) {
    open(my $file, '>', "$output/$name.3") or die "$output/$name.3: $!\n";
    print $file $page{$name};
    close($file) or die "$output/$name.3: $!\n";
}
