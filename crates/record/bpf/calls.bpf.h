/* Every system call (tier `syscall`). Runs of one call on one descriptor that never left the CPU become one record. */

static __always_inline __u32 call_place(long number, __u32 descriptor)
{
	/* Fibonacci hashing: separates similar calls on neighbouring descriptors. */
	return ((((__u32)number << 12) ^ descriptor) * 2654435769u >> 29) & (CALL_RUNS - 1);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_call_entry, struct pt_regs *regs, long number)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	if (!is_recorded(thread) || !thread || number < 0 || number >= 512)
		return 0;
	__u32 flags = settings.call_flags[number & 511];
	thread->call_now = 0;
	if (!(flags & CALL_RECORDED))
		return 0;
	__u64 now = bpf_ktime_get_ns();
	thread->call_start_ns = now;
	thread->call_now = number + 1;
	thread->call_blocked = 0;
	__u64 first = CALL_ARGUMENT0(regs);
	struct file *file = (flags & (CALL_FD0 | CALL_FD1 | CALL_FD2)) == CALL_FD0 ? file_of(task, (__u32)first) : 0;
	thread->call_open_file = (__u64)file;
	thread->call_descriptor = (__u32)first;
	struct call_run *run = &thread->calls[call_place(number, (__u32)first)];
	thread->call_same = file && run->count && !run->blocked && run->call == number && run->descriptor == (__u32)first &&
			    run->open_file == (__u64)file && now - run->start_ns < 10 * settings.merge_ns;
	if (thread->call_same)
		return 0;
	thread->call_offset = ~0ull;
	thread->call_file[0].mode = 0;
	thread->call_file[1].mode = 0;
	describe_call(task, thread, flags, first, CALL_ARGUMENT1(regs), CALL_ARGUMENT2(regs), thread->call_file, now);
	if ((thread->call_file[0].mode & S_IFMT) == S_IFREG) {
		if (flags & CALL_POSITIONED)
			thread->call_offset = CALL_ARGUMENT3(regs);
		else if (file && flags & (CALL_READS | CALL_WRITES))
			thread->call_offset = BPF_CORE_READ(file, f_pos);
	}
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_call_exit, struct pt_regs *regs, long result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	if (!is_recorded(thread) || !thread || !thread->call_now)
		return 0;
	__u64 now = bpf_ktime_get_ns();
	int call = thread->call_now - 1;
	struct call_run *run = &thread->calls[call_place(call, thread->call_descriptor)];
	__u32 blocked = thread->call_blocked;
	thread->call_now = 0;
	/* A context switch in between has emitted the run. */
	int fits = thread->call_same && run->count && !blocked && (run->result < 0) == (result < 0);
	if (!fits) {
		struct fd_object *file = thread->call_same ? run->file : thread->call_file;
		__u64 offset = thread->call_same ? ~0ull : thread->call_offset;
		emit_call_run(thread, run);
		run->start_ns = thread->call_start_ns;
		run->busy_ns = 0;
		run->bytes = 0;
		run->offset_bytes = offset;
		run->call = call;
		run->blocked = blocked;
		run->descriptor = thread->call_descriptor;
		run->open_file = thread->call_open_file;
		run->file[0] = file[0];
		run->file[1] = file[1];
	}
	run->count += 1;
	run->end_ns = now;
	run->busy_ns += now - thread->call_start_ns;
	run->result = result;
	if (result > 0)
		run->bytes += result;
	if (blocked)
		emit_call_run(thread, run);
	return 0;
}
