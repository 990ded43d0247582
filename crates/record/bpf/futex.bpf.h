/* Waits in futex(2): which of them are for a mutex. */

/* glibc's and most languages' mutexes wait by FUTEX_WAIT or FUTEX_LOCK_PI; conditions, semaphores and joins by FUTEX_WAIT_BITSET, and so do
 * glibc's mutexes with a time limit and all that Rust's library has. Those are known from what they expect to find: 2 is a mutex that others
 * wait for; conditions have a counter there, semaphores 0, joins the number of a thread. (glibc's conditions, whose counter may be 2
 * as well, name a clock also where they have no time limit.) Runtimes that park their threads (Go's) wait by FUTEX_WAIT as well, and
 * expect another number than 2. */
#define FUTEX_WAIT 0
#define FUTEX_LOCK_PI 6
#define FUTEX_WAIT_BITSET 9
#define FUTEX_LOCK_PI2 13
#define FUTEX_COMMAND 0x7f
#define FUTEX_CLOCK_REALTIME 256
#define FUTEX_PRIVATE 128
#define FUTEX_CONTENDED 2

/* What a thread in futex(2) waits for: OFF_CONDITION where it does not wait as for a mutex, OFF_MUTEX where it waits for one for certain. */
static __always_inline __u32 waits_in_futex(struct pt_regs *regs)
{
	__u64 operation = CALL_ARGUMENT1(regs), command = operation & FUTEX_COMMAND;
	if (command == FUTEX_LOCK_PI || command == FUTEX_LOCK_PI2)
		return OFF_MUTEX;
	int contended = (__u32)CALL_ARGUMENT2(regs) == FUTEX_CONTENDED;
	if (command != FUTEX_WAIT_BITSET)
		return command == FUTEX_WAIT && contended ? OFF_MUTEX : 0;
	return contended && !(operation & FUTEX_CLOCK_REALTIME && !CALL_ARGUMENT3(regs)) ? OFF_MUTEX : OFF_CONDITION;
}
