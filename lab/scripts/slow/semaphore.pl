# semaphore.pl hold KEY BEGIN SECONDS: has a System V semaphore, gives it back so many seconds after the file BEGIN is there.
# semaphore.pl take KEY: waits for it.
use strict;
use warnings;

use constant { IPC_CREAT => 01000, IPC_RMID => 0, SETVAL => 16 };

my ($what, $key, $begin, $seconds) = @ARGV;
my $semaphore = semget($key, 1, $what eq 'hold' ? IPC_CREAT | 0600 : 0) // die "semget: $!";
if ($what eq 'take') {
    semop($semaphore, pack('s!3', 0, -1, 0)) or die "semop: $!";
    exit 0;
}
semctl($semaphore, 0, SETVAL, 0) or die "semctl: $!";
$SIG{TERM} = sub { semctl($semaphore, 0, IPC_RMID, 0); exit 0 };
$| = 1;
print "ready\n";
select(undef, undef, undef, 0.001) until -e $begin;
unlink $begin;
select(undef, undef, undef, $seconds) if $seconds;
semop($semaphore, pack('s!3', 0, 1, 0)) or die "semop: $!";
sleep 60;
