/* Block requests, from issue to completion, on devices that watched threads use. */

static __always_inline __u32 device_of(struct request *request)
{
	struct gendisk *disk = BPF_CORE_READ(request, q, disk);
	return disk ? (__u32)BPF_CORE_READ(disk, major) << 20 | (__u32)BPF_CORE_READ(disk, first_minor) : 0;
}

/* Returns a serial for an unrecorded process that asks a disk for a request: one serial for all its threads, named
 * after its first thread. A program executed later renames it. */
static __noinline __u32 issuer_of(struct task_struct *task)
{
	struct issuer issuer = {};
	struct task_struct *leader = task;
	if (!task || !task->pid)
		return 0;
	if (!(task->flags & PF_KTHREAD))
		leader = BPF_CORE_READ(task, group_leader);
	if (!leader)
		return 0;
	struct holder_key key = { .start_ns = BPF_CORE_READ(leader, start_boottime), .machines_tid = BPF_CORE_READ(leader, pid) };
	BPF_CORE_READ_INTO(&issuer.name, leader, comm);
	struct issuer *known = bpf_map_lookup_elem(&issuers, &key);
	if (known && known->name[0] == issuer.name[0] && known->name[1] == issuer.name[1])
		return known->serial;
	__u32 *held = bpf_map_lookup_elem(&holders, &key);
	if (known)
		issuer.serial = known->serial;
	else
		issuer.serial = held ? *held : new_serial();
	if (!held)
		bpf_map_update_elem(&holders, &key, &issuer.serial, BPF_ANY);
	bpf_map_update_elem(&issuers, &key, &issuer, BPF_ANY);
	struct runner asking = {
		.to_ns = bpf_ktime_get_ns(),
		.start_ns = key.start_ns,
		.serial = issuer.serial,
		.tid = number_here(leader, 0, key.machines_tid),
		.pid = number_here(leader, 1, key.machines_tid),
		.task_flags = task->flags,
	};
	__builtin_memcpy(asking.name, issuer.name, sizeof(asking.name));
	emit_runner(&asking);
	return issuer.serial;
}

/* Whether the first page of a request belongs to the page cache. */
static __always_inline int is_of_page_cache(struct request *request)
{
	struct page *page = BPF_CORE_READ(request, bio, bi_io_vec, bv_page);
	if (!page || !bpf_core_field_exists(page->mapping))
		return 0;
	__u64 mapping = (__u64)BPF_CORE_READ(page, mapping);
	return mapping && !(mapping & PAGE_MAPPING_ANONYMOUS);
}

/* Returns the device of a request if its requests are recorded, or are to be from now on because recorded threads use
 * it; otherwise 0. */
static __always_inline __u32 device_followed(struct request *request, int recorded)
{
	__u32 device = device_of(request), one = 1;
	if (!device || control.stopped)
		return 0;
	if (bpf_map_lookup_elem(&devices, &device))
		return device;
	if (!recorded)
		return 0;
	bpf_map_update_elem(&devices, &device, &one, BPF_ANY);
	return device;
}

/* A request is created, in the thread that asks for it. Another thread may issue it, long after. */
SEC("tp_btf/block_io_start")
int BPF_PROG(on_block_start, struct request *request)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = thread_of(task);
	struct request_info info = {};
	__u64 key = (__u64)request;
	info.device = device_followed(request, is_recorded(thread));
	if (!info.device)
		return 0;
	info.thread = thread && thread->role ? thread->serial : issuer_of(task);
	info.writeback = task->flags & PF_KTHREAD && (request->cmd_flags & REQUEST_OPERATION) == OPERATION_WRITE && is_of_page_cache(request);
	bpf_map_update_elem(&requests, &key, &info, BPF_ANY);
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(on_block_issue, struct request *request)
{
	struct request_info info = {};
	__u64 key = (__u64)request;
	struct request_info *made = bpf_map_lookup_elem(&requests, &key);
	if (made) {
		made->issue_ns = bpf_ktime_get_ns();
		return 0;
	}
	/* A flush, or a request older than the recording: the issuer need not be the thread that asked. */
	struct thread *thread = thread_of(bpf_get_current_task_btf());
	int recorded = is_recorded(thread);
	info.device = device_followed(request, recorded);
	if (!info.device)
		return 0;
	if (recorded && thread)
		info.thread = thread->serial;
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
	if (!info || !info->issue_ns || control.stopped)
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
	__u32 operation = request->cmd_flags & REQUEST_OPERATION;
	record.operation = (operation < 3 ? operation : 3) | info->writeback << 8;
	emit(&record.head, sizeof(record));
	if (bytes >= request->__data_len)
		bpf_map_delete_elem(&requests, &key);
	return 0;
}
