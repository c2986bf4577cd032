# Hashes, threads, fork, locks, shared memory, alarms, sockets, a child.
use strict;
use warnings;
use threads;
use Fcntl qw(:flock);
use IPC::SysV ();
use POSIX     ();
use Socket;
use Time::HiRes ();

my %h = map { $_ => $_**2 } 1 .. 10;
print join(",", map { "$_=$h{$_}" } sort { $a <=> $b } keys %h), "\n";

sub total {
    my $s = 0;
    $s += $_ for 1 .. 1000 * $_[0];
    return $s;
}
my @t = map { threads->create(\&total, $_) } 1 .. 4;
print join(" ", map { $_->join } @t), "\n";

socketpair(my $x, my $y, AF_UNIX, SOCK_STREAM, PF_UNSPEC) or die $!;
my $pid = fork // die $!;
if (!$pid) {
    syswrite $x, "child";
    POSIX::_exit(7);
}
waitpid $pid, 0;
my $status = $? >> 8;
sysread $y, my $got, 10;
print "$got $status\n";

open my $f, ">", "lock" or die $!;
flock $f, LOCK_EX or die $!;
print "locked\n";

my $id = shmget(IPC::SysV::IPC_PRIVATE(), 4096, 0600) // die "shmget $!";
shmwrite($id, "shared", 0, 6);
shmread($id, my $read, 0, 6);
shmctl($id, IPC::SysV::IPC_RMID(), 0);
print "$read\n";

local $SIG{ALRM} = sub { print "alarm\n" };
Time::HiRes::ualarm(1000);
select undef, undef, undef, 60;

socket(my $s, PF_INET, SOCK_STREAM, 0) or die $!;
bind $s, sockaddr_in(0, INADDR_LOOPBACK) or die $!;
listen $s, 1;
my ($port) = sockaddr_in(getsockname $s);
socket(my $c, PF_INET, SOCK_STREAM, 0) or die $!;
connect $c, sockaddr_in($port, INADDR_LOOPBACK) or die $!;
print "connected\n";

(my $text = "a1b22c333") =~ s/(\d+)/<$1>/g;
print "$text\n";
print scalar `echo sub`;
