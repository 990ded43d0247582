/* Classifies waits in futex(2): which of them are for a mutex. */

/* glibc's and most languages' mutexes wait with FUTEX_WAIT or FUTEX_LOCK_PI; conditions, semaphores and joins use
 * FUTEX_WAIT_BITSET, as do glibc's mutexes with a timeout and everything in Rust's library. The latter are
 * distinguished by the expected value: 2 is a contended mutex; conditions have a counter there, semaphores 0, joins a
 * thread id. (glibc's conditions, whose counter may also be 2, specify a clock even without a timeout.) Runtimes that
 * park threads (Go's) also use FUTEX_WAIT, and expect a value other than 2. */
#define FUTEX_WAIT 0
#define FUTEX_LOCK_PI 6
#define FUTEX_WAIT_BITSET 9
#define FUTEX_LOCK_PI2 13
#define FUTEX_COMMAND 0x7f
#define FUTEX_CLOCK_REALTIME 256
#define FUTEX_PRIVATE 128
#define FUTEX_CONTENDED 2

/* Returns what a thread in futex(2) waits for: OFF_CONDITION if it is not for a mutex, OFF_MUTEX if it certainly is. */
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
