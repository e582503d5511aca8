#!/usr/bin/perl
# DIME::Tools against us: perl client.pl ECHO_WSDL PAYLOADS
# It knows DIME, and nothing of SOAP: the envelope is written here.
use strict;
use warnings;

use DIME::Message;
use DIME::Parser;
use DIME::Payload;
use File::Temp;
use HTTP::Tiny;

my $NAMESPACE = 'urn:fishplate:echo-file';
my $ENVELOPE = 'http://schemas.xmlsoap.org/soap/envelope/';
my $CHUNK = 999;    # bytes of a chunk; three of padding behind each

my ($wsdl, $payloads) = @ARGV;
(my $address = $wsdl) =~ s/\?.*//;
my $failed = 0;

for my $size (0, 1, 8191, 8192, 8193, 1 << 20, 100_000_000) {
    check("whole call-file $size", sub { echo($size, 0) });
}
# It writes no chunk of an empty file, and for a file of one chunk a first one without a last.
for my $size (8191, 8192, 8193, 1 << 20, 100_000_000) {
    check("chunked call-file $size", sub { echo($size, $CHUNK) });
}
exit($failed ? 1 : 0);

sub check {
    my ($name, $body) = @_;
    if (eval { $body->(); 1 }) {
        print "ok $name\n";
    } else {
        $failed++;
        my ($why) = split /\n/, $@;
        print "not ok $name: $why\n";
    }
}

# Sends a file and compares what comes back.
sub echo {
    my ($size, $chunk) = @_;
    my $file = DIME::Payload->new();
    $file->attach(Path => "$payloads/$size.bin", Dynamic => 1, MIMEType => 'application/octet-stream',
        $chunk ? (Chunked => $chunk) : ());
    my $root = File::Temp->new();
    print $root qq{<e:Envelope xmlns:e="$ENVELOPE"><e:Body><call xmlns="$NAMESPACE">}
        . qq{<data href="} . $file->id() . qq{"/></call></e:Body></e:Envelope>};
    $root->flush();
    my $envelope = DIME::Payload->new();
    $envelope->attach(Path => $root->filename(), Dynamic => 1, URIType => $ENVELOPE);
    my $message = DIME::Message->new();
    $message->add_payload($_) for $envelope, $file;
    my $headers = { 'Content-Type' => 'application/dime', 'SOAPAction' => qq{"$NAMESPACE#call"} };
    my $answer = HTTP::Tiny->new(timeout => 60)
        ->post($address, { content => ${ $message->print_data() }, headers => $headers });
    die "answered $answer->{status}: " . substr($answer->{content}, 0, 500) . "\n" unless $answer->{success};
    die "answered as $answer->{headers}{'content-type'}\n"
        unless $answer->{headers}{'content-type'} eq 'application/dime';
    compare($answer->{content}, "$payloads/$size.bin");
}

# What we answered, as DIME::Parser reads it.
sub compare {
    my ($answer, $path) = @_;
    my @parts = DIME::Parser->new()->parse_data(\$answer)->payloads();
    die scalar(@parts) . " parts\n" unless @parts == 2;
    my ($root, $file) = @parts;
    die "the envelope's type is " . $root->type() . "\n" unless $root->type() eq $ENVELOPE;
    my ($href) = content($root) =~ /<(?:\w+:)?copy href="([^"]*)"/ or die "no href\n";
    die "href $href, but the ID is " . $file->id() . "\n" unless $href eq $file->id();
    open my $sent, '<:raw', $path or die "no $path\n";
    local $/;
    die "other bytes\n" unless content($file) eq (<$sent> // '');
}

# DIME::Payload fails on records without data.
sub content {
    my ($payload) = @_;
    return join '', map { my $data = $_->data(); $data ? ${ $data->sref() } : '' } @{ $payload->{_RECORDS} };
}
