/* System calls, each (tier `syscall`). Runs of one call on one descriptor that never lost the processor become one record. */

SEC("tp_btf/sys_enter")
int BPF_PROG(on_call_entry, struct pt_regs *regs, long number)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	if (!is_recorded(thread) || !thread || number < 0 || number >= 512)
		return 0;
	__u32 flags = settings.call_flags[number & 511];
	thread->call_now = 0;
	if (!(flags & CALL_TOLD))
		return 0;
	__u64 now = bpf_ktime_get_ns();
	thread->call_start_ns = now;
	thread->call_now = number + 1;
	thread->call_blocked = 0;
	thread->call_offset = ~0ull;
	thread->call_file[0].mode = 0;
	thread->call_file[1].mode = 0;
	__u64 first = CALL_ARGUMENT0(regs);
	describe_call(task, thread, flags, first, CALL_ARGUMENT1(regs), CALL_ARGUMENT2(regs), thread->call_file, now);
	if ((thread->call_file[0].mode & S_IFMT) == S_IFREG) {
		if (flags & CALL_POSITIONED) {
			thread->call_offset = CALL_ARGUMENT3(regs);
		} else if (flags & (CALL_READS | CALL_WRITES)) {
			struct file *file = file_of(task, (__u32)first);
			if (file)
				thread->call_offset = BPF_CORE_READ(file, f_pos);
		}
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
	struct call_run *run = &thread->calls;
	int call = thread->call_now - 1;
	__u32 blocked = thread->call_blocked;
	thread->call_now = 0;
	int fits = run->count && !blocked && !run->blocked && run->call == call && run->file[0].id == thread->call_file[0].id &&
		   run->file[0].mode == thread->call_file[0].mode && (run->result < 0) == (result < 0) &&
		   now - run->start_ns < 10 * settings.merge_ns;
	if (!fits) {
		tell_calls(thread);
		run->start_ns = thread->call_start_ns;
		run->busy_ns = 0;
		run->bytes = 0;
		run->offset_bytes = thread->call_offset;
		run->call = call;
		run->count = 0;
		run->blocked = blocked;
		run->file[0] = thread->call_file[0];
		run->file[1] = thread->call_file[1];
	}
	run->count += 1;
	run->end_ns = now;
	run->busy_ns += now - thread->call_start_ns;
	run->result = result;
	if (result > 0)
		run->bytes += result;
	if (blocked)
		tell_calls(thread);
	return 0;
}
