/* Mutexes of Go. The runtime parks a goroutine that waits for a mutex and runs another on the same thread, so the kernel sees no wait. These programs run at
 * two functions of the runtime (uprobes) that are called only when a goroutine has to wait or has waiters to wake: an uncontended lock costs nothing.
 *
 * Rejected: `sync.(*Mutex).lockSlow`, whose symbol differs between versions and which also spins; return probes, since Go moves stacks and a return
 * address patched on a stack crashes the program. */

/* runtime.semaProfileFlags: set by the mutexes of package sync, not by WaitGroup or the network poller. */
#define GO_SEMA_MUTEX 2

static __always_inline int emit_task_lock(struct pt_regs *regs, __u32 what)
{
	struct thread *thread = thread_of(bpf_get_current_task_btf());
	if (!is_recorded(thread))
		return 0;
	struct record_task_lock record = {};
	record.head.kind = RECORD_TASK_LOCK;
	record.head.thread = thread->serial;
	record.head.at_ns = bpf_ktime_get_ns();
	record.lock = GO_ARGUMENT0(regs);
	record.task = GO_TASK(regs);
	record.stack = GO_STACK(regs);
	record.what = what;
	emit(&record.head, sizeof(record));
	return 0;
}

/* runtime.semacquire1(address, lifo, profile, ...) */
SEC("uprobe")
int on_task_waits(struct pt_regs *regs)
{
	__u32 what = GO_ARGUMENT1(regs) & 0xff ? TASK_AWAITS_AGAIN : TASK_AWAITS;
	return GO_ARGUMENT2(regs) & GO_SEMA_MUTEX ? emit_task_lock(regs, what) : 0;
}

/* runtime.semrelease1(address, ...), for any semaphore. */
SEC("uprobe")
int on_task_hands_on(struct pt_regs *regs)
{
	return emit_task_lock(regs, TASK_HANDS_ON);
}
