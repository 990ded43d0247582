/* Time a sample represents, in nanoseconds; the reader sets it with the clocks. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} pace SEC(".maps");

/* Samples what a watched thread is doing, periodically on each CPU. */

SEC("perf_event")
int on_sample(struct bpf_perf_event_data *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	if (!task->pid)
		return 0;
	struct thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	if (!is_recorded(thread) || !thread)
		return 0;
	/* Bytes moved so far are emitted before later activity: a sample ends the part of a run that
	 * the reader has. */
	if (!thread->in_net)
		emit_net_runs(thread);
	struct record_sample record = {};
	__u64 now = bpf_ktime_get_ns();
	record.head.kind = RECORD_SAMPLE;
	record.head.cpu = bpf_get_smp_processor_id();
	record.head.thread = thread->serial;
	record.head.at_ns = now;
	record.call = CALL_NONE;
	record.run_ns = is_away(thread) ? 0 : thread->in_ns;
	__u32 zero = 0;
	__u64 *period = bpf_map_lookup_elem(&pace, &zero);
	record.period_ns = period ? *period : 0;
	record.address = SAMPLED_ADDRESS(&ctx->regs);
	read_totals(&record.io, task, thread);
	struct processor *processor = this_processor();
	if (processor && processor->softirq)
		record.flags |= SAMPLE_SOFTIRQ;
	if (processor && processor->hardirq)
		record.flags |= SAMPLE_HARDIRQ;
	if (task->flags & (PF_KTHREAD | PF_IO_WORKER)) {
		record.flags |= OFF_KERNEL_THREAD;
	} else if (SAMPLED_IN_USER(&ctx->regs)) {
		record.flags |= SAMPLE_USER;
	} else {
		struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
		record.call = CALL_NUMBER(regs);
		if (record.call >= 0 && record.call < 512) {
			__u32 flags = settings.call_flags[record.call & 511];
			describe_call(task, thread, flags, CALL_ARGUMENT0(regs), CALL_ARGUMENT1(regs), CALL_ARGUMENT2(regs), record.file, now);
		}
	}
	emit(&record.head, sizeof(record));
	return 0;
}
