/* Walks over all threads and all open files: which threads are recorded from now on, and which waits had not ended. */

/* Walks all threads once: attaches to those of the watched processes. Their registers show what they wait in. */
SEC("iter/task")
int seed(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	if (!task)
		return 0;
	/* The reader runs this. */
	control.level = level_of(bpf_get_current_task_btf());
	__u32 pid = number_here(task, 1, task->tgid);
	__u32 *role = bpf_map_lookup_elem(&seeds, &pid);
	if (!role)
		return 0;
	struct thread *thread = make_thread(task, *role & 0xff, 0, *role >> 8);
	if (thread)
		take_hold(task, thread);
	return 0;
}

/* Walks all open files: requests the other ends of the command's inherited ones. */
SEC("iter/task_file")
int inherited(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	if (!task || !file || number_here(task, 1, task->tgid) != settings.command_pid)
		return 0;
	/* A socket can be both input and output; on an output descriptor it is output. */
	__u32 fd = ctx->fd;
	__u32 output = fd == 1 || fd == 2 || (fd && !(BPF_CORE_READ(file, f_mode) & 1));
	want((__u64)file_of(task, fd), 0, output);
	return 0;
}

/* Walks all open files: attaches to the holders of requested other ends. */
SEC("iter/task_file")
int peers(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	if (!task || !file)
		return 0;
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	__u32 mode = BPF_CORE_READ(inode, i_mode) & S_IFMT;
	if (mode != S_IFIFO && mode != S_IFSOCK)
		return 0;
	struct file_key key = { .inode = BPF_CORE_READ(inode, i_ino), .device = BPF_CORE_READ(inode, i_sb, s_dev) };
	__u32 *asked = bpf_map_lookup_elem(&wanted, &key);
	if (!asked || !(*asked & WANT_ANY & BPF_CORE_READ(file, f_mode)))
		return 0;
	struct thread *thread = thread_of(task);
	if (is_recorded(thread))
		return 0;
	thread = follow(task, serves_unix(file_of(task, ctx->fd), 0) ? ROLE_SERVER : ROLE_CLIENT, *asked >> 8);
	if (thread)
		take_hold(task, thread);
	return 0;
}

/* Walks all threads once: emits what had not ended, and detaches from them. */
SEC("iter/task")
int sweep(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	if (!task)
		return 0;
	struct thread *thread = thread_of(task);
	if (!thread || thread->role < ROLE_CLIENT || thread->role > ROLE_KERNEL)
		return 0;
	__u64 now = bpf_ktime_get_ns();
	if (is_away(thread) && !task->on_cpu) {
		emit_site(task, thread, now);
		thread->off.flags |= OFF_OPEN;
		thread->off.wake_ns = 0;
		thread->off.waker = 0;
		thread->off.context = 0;
		thread->off.wake_device = 0;
		thread->off.wake_connection = 0;
		thread->off.holder = 0;
		thread->off.head.kind = RECORD_OFF;
		thread->off.head.thread = thread->serial;
		thread->off.head.at_ns = now;
		emit(&thread->off.head, sizeof(thread->off));
		emit_names(thread, now);
		/* Under its current name: threads name themselves after their creation. */
		emit_thread(task, thread, 0);
	} else if (thread->in_ns) {
		emit_exit(task, thread, OFF_OPEN, now);
	}
	return 0;
}
