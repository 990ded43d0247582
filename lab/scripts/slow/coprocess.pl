# coprocess.pl ask N ROUNDS [AHEAD]: asks a program of its own, through two pipes, for each of N lines, and computes on what it
# answers as long as that took. Each line waits for the last answer; with AHEAD so many are on their way.
use strict;
use warnings;
use IPC::Open2;

sub mix { my ($rounds, $value) = @_; $value = ($value * 31 + $_) % 65521 for 1 .. $rounds; return $value }

my ($kind, $times, $rounds, $ahead) = @ARGV;
if ($kind eq "answer") {
    $| = 1;
    print mix($rounds, $_), "\n" while <STDIN>;
    exit 0;
}
my $pid = open2(my $answers, my $questions, $^X, $0, "answer", 0, $rounds);
$questions->autoflush(1);
my $sum = 0;
$ahead ||= 1;
print $questions "$_\n" for 1 .. $ahead;
for my $number (1 .. $times) {
    my $answer = <$answers>;
    if ($ahead > 1) { print $questions $number + $ahead, "\n" }
    $sum += mix($rounds, $answer);
    if ($ahead == 1 && $number < $times) { print $questions $number + 1, "\n" }
}
close $questions;
print "$sum\n";
