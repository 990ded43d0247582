/* Block requests, from issue to completion, on devices that watched threads have to do with. */

static __always_inline __u32 device_of(struct request *request)
{
	struct gendisk *disk = BPF_CORE_READ(request, q, disk);
	return disk ? (__u32)BPF_CORE_READ(disk, major) << 20 | (__u32)BPF_CORE_READ(disk, first_minor) : 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(on_block_issue, struct request *request)
{
	struct request_info info = {};
	__u64 key = (__u64)request;
	info.device = device_of(request);
	if (!info.device || control.stopped)
		return 0;
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	__u32 *known = bpf_map_lookup_elem(&devices, &info.device);
	if (is_recorded(thread) && thread) {
		info.thread = thread->serial;
		if (!known) {
			__u32 one = 1;
			bpf_map_update_elem(&devices, &info.device, &one, BPF_ANY);
		}
	} else if (!known) {
		return 0;
	}
	info.issue_ns = bpf_ktime_get_ns();
	bpf_map_update_elem(&requests, &key, &info, BPF_ANY);
	return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(on_block_complete, struct request *request, int error, unsigned int bytes)
{
	struct processor *processor = this_processor();
	__u64 key = (__u64)request;
	__u64 now = bpf_ktime_get_ns();
	if (processor) {
		processor->block_device = device_of(request);
		processor->block_ns = now;
		processor->block_task = processor->softirq || processor->hardirq ? 0 : (__u64)bpf_get_current_task_btf();
	}
	struct request_info *info = bpf_map_lookup_elem(&requests, &key);
	if (!info || control.stopped)
		return 0;
	struct record_block record = {};
	record.head.kind = RECORD_BLOCK;
	record.head.cpu = bpf_get_smp_processor_id();
	record.head.thread = info->thread;
	record.head.at_ns = now;
	record.issue_ns = info->issue_ns;
	record.sector = request->__sector;
	record.bytes = bytes;
	record.device = info->device;
	record.error = error;
	__u32 operation = request->cmd_flags & 0xff;
	record.operation = operation < 3 ? operation : 3;
	emit(&record.head, sizeof(record));
	if (bytes >= request->__data_len)
		bpf_map_delete_elem(&requests, &key);
	return 0;
}
