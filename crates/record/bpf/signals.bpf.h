/* Signals sent to recorded threads that end a process unless it handles them. They are few. */

#define SIGNAL_DELIVERED 0 /* enum: TRACE_SIGNAL_DELIVERED */

/* Excluded: signals that stop, continue, or notify a process. */
#define SIGCHLD 17
#define SIGCONT 18
#define SIGSTOP 19
#define SIGTSTP 20
#define SIGTTIN 21
#define SIGTTOU 22
#define SIGURG 23
#define SIGWINCH 28

#define SI_USER 0
#define SI_QUEUE (-1)
#define SI_TKILL (-6)

SEC("tp_btf/signal_generate")
int BPF_PROG(on_signal, int signal, struct kernel_siginfo *info, struct task_struct *task, int group, int result)
{
	if (result != SIGNAL_DELIVERED || (signal >= SIGCHLD && signal <= SIGURG) || signal == SIGWINCH || signal > 31)
		return 0;
	struct thread *thread = thread_of(task);
	if (!is_recorded(thread) || !thread)
		return 0;
	struct task_struct *sender = bpf_get_current_task_btf();
	struct record_signal record = {};
	record.head.kind = RECORD_SIGNAL;
	record.head.thread = thread->serial;
	record.head.at_ns = bpf_ktime_get_ns();
	record.signal = signal;
	/* SEND_SIG_NOINFO is 0 and from a process, SEND_SIG_PRIV is 1 and from the kernel; otherwise si_code says: kill(2),
	 * sigqueue(3) and tgkill(2) come from processes. */
	int code = (__u64)info > 1 ? BPF_CORE_READ(info, si_code) : 0;
	record.by_kernel = (__u64)info == 1 || (code != SI_USER && code != SI_QUEUE && code != SI_TKILL);
	record.sender_pid = number_here(sender, 1, sender->tgid);
	__builtin_memcpy(record.sender, sender->comm, sizeof(record.sender));
	emit(&record.head, sizeof(record));
	return 0;
}
