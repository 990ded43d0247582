/* Where recorded threads wait: stacks of waits that turned out to be long.
 *
 * The recorder beside the profile keeps when each of its threads was switched out and in what state. This object
 * shares its map, so both use the same clock reading, and a stack is matched with its wait's span exactly. Stacks are
 * taken when a thread has returned: short waits, which are most, cost nothing. That instant is the end of __schedule,
 * in the thread itself, whose stack is unchanged.
 *
 * Older kernels have no tracepoint there. On them the stack is taken at the switch out, for a part of all waits
 * (which are long is not known yet), kept with the thread, and emitted when it returns from a long wait. */

/* The recorder's map; the loader sets it. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct wait_counts);
} wait_counts SEC(".maps");

/* Separate from the sampler's, which interrupts this code. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct profile_sample);
} wait_scratch SEC(".maps");

/* Stacks of threads that are off the CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct profile_sample);
} waiting SEC(".maps");

static __always_inline struct wait_counts *this_wait_counts(void)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(&wait_counts, &zero);
}

/* Returns the recorder's state of a recorded thread. A kernel thread that sleeps voluntarily waits for work: no stack
 * shows for whom. */
static __always_inline struct thread *recorded(struct task_struct *task)
{
	if (!task->pid || (bpf_core_field_exists(task->bpf_storage) && !task->bpf_storage))
		return 0;
	struct thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	if (!thread || thread->role < ROLE_CLIENT || thread->role > ROLE_KERNEL)
		return 0;
	__u32 state = thread->off.state;
	if (!state || thread->off.flags & OFF_NEW)
		return 0;
	if (task->flags & PF_KTHREAD && (!(state & TASK_UNINTERRUPTIBLE) || state & TASK_NOLOAD))
		return 0;
	return thread;
}

/* Returns how long a returned thread waited: until its wake-up, if that was seen. 0: it is off the CPU. (A recorder
 * that has ended no longer updates returns.) */
static __always_inline __u64 waited_ns(struct thread *thread)
{
	__u64 until_ns = thread->in_ns, out_ns = thread->off.out_ns;
	if (thread->off.wake_ns && thread->off.wake_ns < until_ns)
		until_ns = thread->off.wake_ns;
	return thread->in_ns >= out_ns && until_ns > out_ns ? until_ns - out_ns : 0;
}

/* Whether a stack may be taken now, of a wait this long as far as known. */
static __always_inline int may_take(struct wait_counts *counts, __u64 now, __u64 waited)
{
	__s64 saved = counts->saved_ns + (now - counts->last_ns) / WAIT_STACK_PART;
	counts->saved_ns = saved < WAIT_STACK_SAVED_NS ? saved : WAIT_STACK_SAVED_NS;
	counts->last_ns = now;
	if (counts->saved_ns > (waited < WAIT_STACK_LONG_NS ? WAIT_STACK_SAVED_NS / 2 : 0))
		return 1;
	counts->left_out += 1;
	return 0;
}

/* Takes the current thread's stack. Returns the record's size; 0: no stack. */
static __always_inline __u64 stack_of_wait(void *ctx, struct profile_sample *sample, struct task_struct *task, __u64 out_ns)
{
	__u32 flags = PROFILE_WAIT;
	sample->pid = task->tgid;
	sample->tid = task->pid;
	sample->cpu = bpf_get_smp_processor_id();
	__builtin_memcpy(sample->name, &out_ns, sizeof(out_ns));
	long kernel = bpf_get_stack(ctx, sample->frames, PROFILE_FRAMES * 8, 0), user = 0;
	if (kernel < 0 || kernel > PROFILE_FRAMES * 8)
		kernel = 0;
	if (task->flags & (PF_KTHREAD | PF_IO_WORKER)) {
		flags |= PROFILE_KERNEL_THREAD;
	} else {
		struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
		flags |= IS_32_BIT_CODE(USER_CODE(regs)) ? PROFILE_32_BIT : 0;
		user = bpf_get_stack(ctx, (void *)sample->frames + kernel, PROFILE_FRAMES * 8, BPF_F_USER_STACK);
		if (user < 0 || user > PROFILE_FRAMES * 8)
			user = 0;
	}
	sample->flags = flags;
	sample->kernel_frames = (__u64)kernel >> 3;
	sample->user_frames = (__u64)user >> 3;
	__u64 size = PROFILE_HEAD + kernel + user;
	return kernel + user && size <= sizeof(*sample) ? size : 0;
}

static __always_inline void emit_wait(struct profile_sample *sample, __u64 size, struct wait_counts *counts, __u64 now)
{
	sample->at_ns = now;
	if (size > sizeof(*sample))
		return;
	if (emit(sample, size))
		counts->lost += 1;
	else
		counts->taken += 1;
}

/* The current thread has returned. */
SEC("tp_btf/sched_exit_tp")
int BPF_PROG(on_wait_over, _Bool is_switch)
{
	if (!running || !is_switch)
		return 0;
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = recorded(task);
	__u64 waited = thread ? waited_ns(thread) : 0;
	if (waited < WAIT_STACK_NS)
		return 0;
	__u32 zero = 0;
	struct profile_sample *sample = bpf_map_lookup_elem(&wait_scratch, &zero);
	struct wait_counts *counts = this_wait_counts();
	if (!sample || !counts)
		return 0;
	__u64 now = bpf_ktime_get_ns();
	if (!may_take(counts, now, waited))
		return 0;
	__u64 size = stack_of_wait(ctx, sample, task, thread->off.out_ns);
	if (size)
		emit_wait(sample, size, counts, now);
	counts->saved_ns -= bpf_ktime_get_ns() - now;
	return 0;
}

/* The fallback for kernels without that tracepoint. It must be attached after the recorder's program, which notes
 * when each thread was switched out. */
SEC("tp_btf/sched_switch")
int BPF_PROG(on_wait_switch, _Bool preempted, struct task_struct *before, struct task_struct *after)
{
	struct wait_counts *counts = this_wait_counts();
	if (!running || !counts)
		return 0;
	struct thread *entered = recorded(after);
	if (entered && waited_ns(entered) >= WAIT_STACK_NS) {
		struct profile_sample *kept = bpf_task_storage_get(&waiting, after, 0, 0);
		__u64 out_ns = 0;
		if (kept)
			__builtin_memcpy(&out_ns, kept->name, sizeof(out_ns));
		if (kept && out_ns == entered->off.out_ns)
			emit_wait(kept, PROFILE_HEAD + 8 * ((__u64)kept->kernel_frames + kept->user_frames), counts, bpf_ktime_get_ns());
	}
	struct thread *left = recorded(before);
	if (!left || left->off.out_ns <= left->in_ns)
		return 0;
	__u64 now = bpf_ktime_get_ns();
	if (!may_take(counts, now, 0))
		return 0;
	struct profile_sample *kept = bpf_task_storage_get(&waiting, before, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!kept)
		return 0;
	/* Without a stack, that of an earlier wait must not stand for it. */
	if (!stack_of_wait(ctx, kept, before, left->off.out_ns))
		__builtin_memset(kept->name, 0, sizeof(kept->name));
	counts->saved_ns -= bpf_ktime_get_ns() - now;
	return 0;
}
