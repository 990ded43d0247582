/* The scheduler: when threads were off the CPU, what they were in, who woke them, who ran instead. */

/* The thread runs again from `now` on. `seen`: on this CPU, just now. */
static __noinline int come_back(struct thread *thread, int seen, __u64 now)
{
	if (!thread)
		return 0;
	struct record_off *off = &thread->off;
	__u64 runnable_ns = off->out_ns;
	if (!off->out_ns) {
		/* Watched only since it slept or was created: how that began is unknown. */
		thread->in_ns = now;
		return 0;
	}
	off->wake_ns = 0;
	off->waker = 0;
	off->context = 0;
	off->wake_device = 0;
	off->wake_connection = 0;
	/* A wake-up may be stamped earlier than the switch out that it ends: usually by little, by more if the thread was
	 * preempted in between. An older, spurious wake-up would have been overwritten by this one. */
	if ((off->state || off->flags & OFF_NEW) && thread->wake_ns > off->run_ns) {
		off->wake_ns = thread->wake_ns;
		off->waker = thread->waker;
		off->context = thread->wake_context;
		off->wake_device = thread->wake_device;
		off->wake_connection = thread->wake_connection;
		runnable_ns = off->wake_ns > off->out_ns ? off->wake_ns : off->out_ns;
	}
	off->holder = 0;
	if (seen && (__s64)(now - runnable_ns) > 20000 && (off->wake_ns || !off->state))
		off->holder = holder_of(runnable_ns);
	off->head.kind = RECORD_OFF;
	off->head.cpu = bpf_get_smp_processor_id();
	off->head.thread = thread->serial;
	off->head.at_ns = now;
	emit(&off->head, sizeof(*off));
	thread->in_ns = now;
	return 0;
}

/* Whether a thread is off the CPU, as far as known: its last switch was out. */
static __always_inline int is_away(struct thread *thread)
{
	return thread->off.out_ns && thread->off.out_ns >= thread->in_ns;
}

/* A virtual machine's agent has threads that leave a CPU untraced: no switch from them is seen, nor their wake-ups. A
 * thread that runs although its last known switch was out came back unseen; the kernel's own count of its running
 * since then gives the time. */
static __noinline int make_up(struct task_struct *task, struct thread *thread, __u64 now)
{
	if (!task || !thread)
		return 0;
	struct record_off *off = &thread->off;
	if (!is_away(thread) || now <= off->out_ns)
		return 0;
	__u64 ran_ns = task->se.sum_exec_runtime - thread->exec_ns;
	__u64 since_ns = off->out_ns;
	int woken = (off->state || off->flags & OFF_NEW) && thread->wake_ns > off->run_ns;
	if (woken && thread->wake_ns > since_ns)
		since_ns = thread->wake_ns;
	if (now > since_ns && ran_ns < now - since_ns)
		since_ns = now - ran_ns;
	/* The wake-up's time is from another CPU, which may be ahead. */
	if (since_ns > now)
		since_ns = now;
	come_back(thread, 0, since_ns);
	return 1;
}

static __always_inline void emit_exit(struct task_struct *task, struct thread *thread, __u32 flags, __u64 now)
{
	make_up(task, thread, now);
	emit_net_runs(thread);
	if (settings.trace_calls)
		emit_calls(thread);
	struct record_exit record = {};
	record.head.kind = RECORD_EXIT;
	record.head.thread = thread->serial;
	record.head.at_ns = now;
	record.run_ns = thread->in_ns;
	record.flags = flags;
	record.allowed = task->nr_cpus_allowed;
	record.code = task->exit_code;
	read_totals(&record.io, task, thread);
	__builtin_memcpy(record.name, task->comm, sizeof(record.name));
	emit_names(thread, now);
	emit(&record.head, sizeof(record));
}

/* "[eventf" and "inotify" as numbers, in the byte order of the supported CPUs. */
#define EVENTFD_NAME 0x0066746e6576655bull
#define INOTIFY_NAME 0x00796669746f6e69ull

/* Requests the other end of what a thread waits for; an object without a type is an eventfd, an inotify queue, or
 * unknown. The plain number arguments let the verifier check it once rather than for each caller's state. */
__noinline __u32 other_end(__u64 address, __u32 mode, __u32 depth)
{
	struct file *file = (struct file *)address;
	__u32 kind = mode & S_IFMT;
	if (!file)
		return 0;
	if (settings.follow && (kind == S_IFIFO || kind == S_IFSOCK))
		want(address, depth, 0);
	if (kind)
		return 0;
	__u64 name = 0;
	bpf_probe_read_kernel_str(&name, sizeof(name), BPF_CORE_READ(file, f_path.dentry, d_name.name));
	return name == EVENTFD_NAME ? ACCESS_EVENTFD : name == INOTIFY_NAME ? ACCESS_INOTIFY : 0;
}

/* Requests the other end once per object: threads exchanging bytes wait on the same one tens of thousands of times a
 * second. */
__noinline __u32 asked_end(struct asked *asked, __u64 mark, __u64 address, __u32 mode, __u32 depth)
{
	if (!asked)
		return 0;
	if (!mark || asked->mark != mark) {
		asked->access = other_end(address, mode, depth);
		asked->mark = mark;
	}
	return asked->access;
}

/* Kernels that throttle single threads report it; on others, cpu.stat says how long a whole group was throttled. */
struct task_struct___quota {
	_Bool throttled;
} __attribute__((preserve_access_index));

static __always_inline void switch_out(struct task_struct *task, struct thread *thread, int preempted, __u64 now)
{
	struct record_off *off = &thread->off;
	__u32 state = preempted ? 0 : task->__state;
	if (state & TASK_DEAD) {
		emit_exit(task, thread, 0, now);
		thread->role = ROLE_NONE;
		return;
	}
	emit_net_runs(thread);
	if (settings.trace_calls)
		emit_calls(thread);
	off->run_ns = thread->in_ns;
	off->out_ns = now;
	thread->exec_ns = task->se.sum_exec_runtime;
	off->state = state;
	off->flags = thread->flags;
	thread->flags = 0;
	off->stop_signal = 0;
	off->polled_connection = 0;
	off->file[0].mode = 0;
	off->file[1].mode = 0;
	read_totals(&off->io, task, thread);
	if (BPF_CORE_READ_BITFIELD(task, in_iowait))
		off->flags |= OFF_IOWAIT;
	if (task->flags & PF_KTHREAD)
		off->flags |= OFF_KERNEL_THREAD;
	if (task->flags & (PF_KTHREAD | PF_IO_WORKER)) {
		off->call = CALL_NONE;
		return;
	}
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	int call = CALL_NUMBER(regs);
	off->call = call;
	off->argument = CALL_ARGUMENT0(regs);
	thread->call_blocked = 1;
	if (state == 0) {
		struct task_struct___quota *stopped = (void *)task;
		if (bpf_core_field_exists(stopped->throttled) && BPF_CORE_READ(stopped, throttled))
			off->flags |= OFF_QUOTA;
		return;
	}
	if (call >= 0 && call < 512) {
		__u32 flags = settings.call_flags[call & 511];
		__u64 first = off->argument;
		if (flags & CALL_POLLS)
			off->flags |= one_polled(task, regs, &flags, &first);
		describe_call(task, thread, flags, first, CALL_ARGUMENT1(regs), CALL_ARGUMENT2(regs), off->file, now);
		if (flags & CALL_FUTEX)
			off->flags |= waits_in_futex(regs);
		if (flags & CALL_FUTEX && !(CALL_ARGUMENT1(regs) & FUTEX_PRIVATE))
			off->flags |= OFF_SHARED;
		if (flags & CALL_SLEEPS)
			off->polled_connection = thread->polled_connection;
		else if (flags & CALL_POLLS)
			off->polled_connection = unanswered(task->tgid, now);
		if (off->file[0].mode)
			off->file[0].access |= asked_end(&thread->asked, thread->cached_inode[0], thread->cached_file, off->file[0].mode, thread->depth);
	} else if (off->flags & OFF_FAULT_FILE) {
		off->file[0] = thread->fault_file;
		emit_file(0, thread->fault_inode, thread->fault_file.device, S_IFREG, 0);
	}
	if (state & (TASK_STOPPED | TASK_TRACED))
		off->stop_signal = task->jobctl & 0xffff;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, _Bool preempted, struct task_struct *before, struct task_struct *after)
{
	__u64 left_has = storage_of(before), entered_has = storage_of(after);
	barrier_var(left_has);
	barrier_var(entered_has);
	struct processor *processor = this_processor();
	struct thread *left = 0;
	if (!processor || control.stopped)
		return 0;
	if (left_has && before->pid)
		left = thread_of(before);
	struct thread *entered = entered_has ? thread_of(after) : 0;
	__u64 now = bpf_ktime_get_ns();
	if (left && is_recorded(left) && make_up(before, left, now))
		processor->since_ns = left->in_ns;
	note_runner(processor, before, left, now);
	if (left && is_recorded(left)) {
		switch_out(before, left, preempted, now);
		/* It may be opening a FIFO without a process at the other side, or truncating a file. */
		if ((left->off.state & TASK_INTERRUPTIBLE || left->off.file[0].access & ACCESS_TRUNCATES) && left->off.call >= 0 &&
		    is_path(settings.call_flags[left->off.call & 511]))
			emit_look(settings.call_flags[left->off.call & 511], 0, LOOK_WAITS);
	}
	if (entered && is_recorded(entered))
		come_back(entered, 1, now);
	return 0;
}

/* Attaches to an existing thread: if it sleeps, its registers show what it waits in. */
static __noinline int take_hold(struct task_struct *task, struct thread *thread)
{
	if (!task || !thread || thread->off.out_ns || thread->in_ns)
		return 0;
	__u64 now = bpf_ktime_get_ns();
	thread->in_ns = now;
	if (is_recorded(thread) && !task->on_cpu)
		switch_out(task, thread, 0, now);
	return 0;
}

/* Handles the wake-up of an unrecorded thread; returns it if it is recorded from now on. */
static __always_inline struct thread *follow_woken(struct task_struct *task, struct task_struct *woken, struct processor *processor)
{
	__u32 depth = 0, role = ROLE_CLIENT;
	if (!settings.follow || processor->hardirq || processor->timer)
		return 0;
	if (processor->softirq && processor->udp_port) {
		struct thread *thread = thread_of(task);
		if (!is_recorded(thread) || !thread || !sends_datagram(task, processor->udp_port))
			return 0;
		depth = thread->depth + 1;
		role = ROLE_SERVER;
	} else if (processor->softirq) {
		if (!processor->tcp_cookie)
			return 0;
		depth = processor->tcp_followed;
		if (!depth && control.older) {
			depth = peer_of(processor->tcp_sock);
			depth += !!depth;
		}
		if (!depth)
			return 0;
		__u64 cookie = processor->tcp_cookie;
		__u32 *end = bpf_map_lookup_elem(&ends, &cookie);
		if (end && *end == 2)
			role = ROLE_SERVER;
		depth -= 1;
	} else {
		struct thread *thread = thread_of(task);
		if (!is_recorded(thread) || !thread || task->flags & PF_KTHREAD || !has_got_something(task, woken))
			return 0;
		depth = thread->depth + 1;
		/* A thread that works for a server is a server too; so is one that was called by its socket's name. */
		role = thread->role == ROLE_SERVER || serves_unix(file_of_call(task), 1) ? ROLE_SERVER : ROLE_CLIENT;
	}
	struct thread *found = follow(woken, role, depth);
	if (found)
		take_hold(woken, found);
	return found;
}

/* Returns the thread that ends a wait in task context: a kernel thread acts on behalf of the waiter, any other is
 * followed. */
static __noinline struct thread *follow_waker(struct task_struct *task, struct task_struct *woken, struct thread *thread,
					     struct processor *processor)
{
	if (!task || !woken || !thread || !processor)
		return 0;
	struct thread *ender = thread_of(task);
	if (task->flags & PF_KTHREAD) {
		/* A kernel thread that ends a kernel thread's wait acts on its behalf only if that thread was in the middle of work. */
		__u32 state = woken->__state;
		int works = thread->role != ROLE_KERNEL || (state & TASK_UNINTERRUPTIBLE && !(state & TASK_NOLOAD));
		__u32 role = works ? ROLE_KERNEL : ROLE_NONE;
		if (ender && ender->emitted && (ender->role || !role))
			return ender;
		ender = make_thread(task, role, 0, thread->depth);
		if (ender && role)
			ender->in_ns = bpf_ktime_get_ns();
		return ender;
	}
	if (is_recorded(ender))
		return ender;
	__u32 role = processor->softirq || thread->role == ROLE_SERVER || serves_unix(file_of_call(task), 0) ? ROLE_SERVER : ROLE_CLIENT;
	struct thread *followed = thread->role != ROLE_KERNEL ? follow_current(task, role, thread->depth + 1) : 0;
	if (followed)
		return followed;
	return ender && ender->emitted ? ender : make_thread(task, ROLE_NONE, 0, 0);
}

/* Minimum sleep whose kernel location is looked up. */
#define SITE_NS 1000000

/* Emits where a thread about to be woken sleeps, if its call does not show what it waits for. */
static __noinline int emit_site(struct task_struct *woken, struct thread *thread, __u64 now)
{
	struct record_site record = {};
	if (!woken || !thread || !thread->off.out_ns || now - thread->off.out_ns < SITE_NS || woken->flags & PF_KTHREAD)
		return 0;
	int call = thread->off.call;
	__u32 known = call >= 0 && call < 512 ? settings.call_flags[call & 511] : 0;
	known = is_path(known) ? 0 : known;
	if (woken->__state & TASK_UNINTERRUPTIBLE ? woken->__state & TASK_NOLOAD : known)
		return 0;
	if (bpf_get_task_stack(woken, record.function, sizeof(record.function), 0) < 8)
		return 0;
	record.head.kind = RECORD_SITE;
	record.head.thread = thread->serial;
	record.head.at_ns = now;
	emit(&record.head, sizeof(record));
	return 0;
}

struct question {
	__u64 address;
	char name[64];
};

static const char address_format[] SEC(".rodata.format") = "%ps";

/* Returns the name of a function to the reader. */
SEC("syscall")
int name_of(struct question *question)
{
	char name[64] = {};
	__u64 address = question->address;
	bpf_snprintf(name, sizeof(name), address_format, &address, sizeof(address));
	for (int i = 0; i < 64; i++)
		question->name[i] = name[i];
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *woken)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 woken_has = storage_of(woken), waker_has = storage_of(task);
	barrier_var(woken_has);
	barrier_var(waker_has);
	struct thread *thread = woken_has ? thread_of(woken) : 0;
	struct processor *processor = this_processor();
	if (!processor)
		return 0;
	if (!is_recorded(thread)) {
		if (!processor->softirq && !(waker_has && thread_of(task)))
			return 0;
		thread = follow_woken(task, woken, processor);
		if (!is_recorded(thread))
			return 0;
	}
	if (!thread)
		return 0;
	__u64 now = bpf_ktime_get_ns();
	__u32 waker = 0, device = 0, context;
	__u64 connection = 0;
	if (processor->timer || processor->softirq == 2 || processor->softirq == 9) {
		context = CONTEXT_TIMER;
	} else if (processor->hardirq) {
		context = CONTEXT_HARDIRQ;
		device = processor->block_task ? 0 : processor->block_device;
	} else if (processor->udp_port && sends_datagram(task, processor->udp_port)) {
		/* The interrupt comes from its own send. */
		struct thread *ender = follow_waker(task, woken, thread, processor);
		context = CONTEXT_TASK;
		if (ender)
			waker = ender->serial;
	} else if (processor->softirq) {
		context = CONTEXT_SOFTIRQ;
		device = processor->block_task ? 0 : processor->block_device;
		connection = processor->tcp_cookie;
		if (connection)
			emit_connection(processor->tcp_sock, connection, now);
	} else {
		context = CONTEXT_TASK;
		describe_ender(task, thread);
		if (processor->block_task == (__u64)task && now - processor->block_ns < 50000)
			device = processor->block_device;
		struct thread *ender = task->pid ? follow_waker(task, woken, thread, processor) : 0;
		if (ender)
			waker = ender->serial;
	}
	emit_site(woken, thread, now);
	if (device) {
		__u32 one = 1;
		if (!bpf_map_lookup_elem(&devices, &device))
			bpf_map_update_elem(&devices, &device, &one, BPF_ANY);
	}
	thread->waker = waker;
	thread->wake_context = context;
	thread->wake_device = device;
	thread->wake_connection = connection;
	thread->wake_ns = now;
	return 0;
}

static __always_inline void inherit(struct task_struct *child, struct thread *parent)
{
	struct thread *made = make_thread(child, parent->role, parent->serial, parent->depth);
	if (made) {
		__u64 now = bpf_ktime_get_ns();
		made->off.out_ns = now;
		made->off.run_ns = now - 1;
		made->off.flags = OFF_NEW;
		made->off.call = CALL_NONE;
		made->waker = parent->serial;
		made->wake_context = CONTEXT_TASK;
		made->wake_ns = now;
	}
}

/* An unrecorded thread creates another: its process may have been reached a moment ago. */
static __noinline struct thread *follow_maker(struct task_struct *task)
{
	if (!task || !settings.follow || task->flags & PF_KTHREAD)
		return 0;
	__u32 pid = number_here(task, 1, task->tgid);
	return bpf_map_lookup_elem(&seeds, &pid) ? follow_current(task, ROLE_CLIENT, 0) : 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	struct thread *thread = thread_of(parent);
	if (!is_recorded(thread))
		thread = follow_maker(parent);
	if (is_recorded(thread) && thread && thread->role != ROLE_KERNEL)
		inherit(child, thread);
	return 0;
}

/* Threads created without a fork: io_uring's workers. */
SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct *child)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *parent = thread_of(task);
	if (!is_recorded(parent) || !parent || parent->role == ROLE_KERNEL || child->flags & PF_KTHREAD)
		return 0;
	struct thread *thread = thread_of(child);
	if (!thread || !thread->role)
		inherit(child, parent);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task)
{
	struct thread *thread = thread_of(task);
	if (is_recorded(thread) && thread)
		emit_thread(task, thread, 0);
	return 0;
}

/* A process waiting for this one can see its end before the last switch out, and the recording may end then. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	struct thread *thread = thread_of(task);
	if (!is_recorded(thread) || !thread)
		return 0;
	emit_exit(task, thread, OFF_EXITING, bpf_ktime_get_ns());
	if (thread->depth && task->pid == task->tgid) {
		/* Its number may be reused soon. */
		__u32 pid = number_here(task, 1, task->tgid);
		bpf_map_delete_elem(&seeds, &pid);
	}
	return 0;
}

SEC("tp_btf/balance_dirty_pages")
int on_balance_dirty_pages(__u64 *ctx)
{
	struct thread *thread = thread_of(bpf_get_current_task_btf());
	/* The seventh argument: how long it will sleep, in jiffies. */
	if (is_recorded(thread) && thread && (__s64)ctx[6] > 0)
		thread->flags |= OFF_THROTTLED;
	return 0;
}

SEC("tp_btf/folio_wait_writeback")
int on_wait_writeback(__u64 *ctx)
{
	struct thread *thread = thread_of(bpf_get_current_task_btf());
	if (is_recorded(thread) && thread)
		thread->flags |= OFF_WRITEBACK;
	return 0;
}

/* A fault on a mapped file whose page was not mapped yet. */
SEC("tp_btf/mm_filemap_fault")
int BPF_PROG(on_fault, struct address_space *mapping)
{
	struct thread *thread = thread_of(bpf_get_current_task_btf());
	if (!is_recorded(thread) || !thread)
		return 0;
	thread->fault_file.id = BPF_CORE_READ(mapping, host, i_ino);
	thread->fault_file.device = BPF_CORE_READ(mapping, host, i_sb, s_dev);
	thread->fault_file.mode = S_IFREG;
	thread->fault_file.fd = -1;
	thread->fault_inode = (__u64)BPF_CORE_READ(mapping, host);
	thread->flags |= OFF_FAULT_FILE;
	return 0;
}

/* The interrupt the CPU is in. */

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_softirq_entry, unsigned int vector)
{
	struct processor *processor = this_processor();
	if (processor) {
		processor->softirq = vector + 1;
		processor->tcp_cookie = 0;
		processor->udp_port = 0;
		processor->block_device = 0;
		processor->block_task = 0;
	}
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(on_softirq_exit, unsigned int vector)
{
	struct processor *processor = this_processor();
	if (processor)
		processor->softirq = 0;
	return 0;
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(on_irq_entry)
{
	struct processor *processor = this_processor();
	if (processor) {
		processor->hardirq = 1;
		processor->block_device = 0;
		processor->block_task = 0;
	}
	return 0;
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(on_irq_exit)
{
	struct processor *processor = this_processor();
	if (processor)
		processor->hardirq = 0;
	return 0;
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(on_timer_entry)
{
	struct processor *processor = this_processor();
	if (processor)
		processor->timer = 1;
	return 0;
}

SEC("tp_btf/hrtimer_expire_exit")
int BPF_PROG(on_timer_exit)
{
	struct processor *processor = this_processor();
	if (processor)
		processor->timer = 0;
	return 0;
}
