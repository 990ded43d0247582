/* Counts the files and names a thread handles. The lean tier traces no system calls, so the counts come from kernel
 * functions where all ways to open, stat, unlink, rename and list converge. All programs are optional. Where programs
 * may not be attached to functions, the tracepoints at the end count what they can instead; never both (load.rs).
 *
 * An overlay file system (overlayfs) forwards requests to the one below through the same functions. Its inner files
 * are marked, and its inner mounts have no namespace; removals have neither mark, so they are counted by the file
 * system that was asked. */
#ifndef THALWEG_NAMES_H
#define THALWEG_NAMES_H

#define FMODE_CREATED 0x100000u
#define FMODE_NOACCOUNT 0x20000000u	/* a file below the opened one */
#define OVERLAYFS_SUPER_MAGIC 0x794c7630ul

static __always_inline struct thread *counted_thread(void)
{
	struct thread *thread = thread_of(bpf_get_current_task_btf());
	return is_recorded(thread) ? thread : 0;
}

static __always_inline void count_name(struct thread *thread, __u32 what)
{
	thread->names.count[what] += 1;
	thread->names.fresh = 1;
}

SEC("fentry/security_file_open")
int BPF_PROG(on_open, struct file *file)
{
	struct thread *thread = counted_thread();
	if (!thread || (BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) != S_IFREG)
		return 0;
	__u32 mode = BPF_CORE_READ(file, f_mode);
	if (mode & FMODE_NOACCOUNT)
		return 0;
	count_name(thread, NAMES_OPENED);
	if (mode & FMODE_CREATED)
		count_name(thread, NAMES_CREATED);
	return 0;
}

SEC("fentry/security_inode_getattr")
int BPF_PROG(on_getattr, struct path *path)
{
	struct thread *thread = counted_thread();
	if (!thread)
		return 0;
	struct mount *mount = (struct mount *)((char *)BPF_CORE_READ(path, mnt) - bpf_core_field_offset(struct mount, mnt));
	/* The kernel's own mounts (those below overlays, pipes, sockets) have no namespace, or an error in its place. */
	__s64 namespace = (__s64)BPF_CORE_READ(mount, mnt_ns);
	if (namespace && (namespace < -4095 || namespace > 0))
		count_name(thread, NAMES_STATED);
	return 0;
}

/* Forwarded operations are counted at both levels: the reader takes the larger count. */
static __always_inline void count_in(struct inode *directory, __u32 what)
{
	struct thread *thread = counted_thread();
	if (thread)
		count_name(thread, BPF_CORE_READ(directory, i_sb, s_magic) == OVERLAYFS_SUPER_MAGIC ? what + 1 : what);
}

SEC("fentry/security_inode_unlink")
int BPF_PROG(on_unlink, struct inode *directory)
{
	count_in(directory, NAMES_REMOVED);
	return 0;
}

SEC("fentry/security_inode_rename")
int BPF_PROG(on_rename, struct inode *directory)
{
	count_in(directory, NAMES_RENAMED);
	return 0;
}

/* One name of a listing. A name that did not fit into a full buffer is passed again as the first of the next. */
SEC("fentry/filldir64")
int BPF_PROG(on_listed, void *context, const char *name, int length, long long position, __u64 inode)
{
	struct thread *thread = counted_thread();
	if (!thread)
		return 0;
	if (length == 1 || length == 2) {
		char start[2] = {};
		bpf_probe_read_kernel(start, sizeof(start), name);
		/* `.` and `..` */
		if (start[0] == '.' && (length == 1 || start[1] == '.')) {
			thread->names.listed_last = 0;
			return 0;
		}
	}
	__u64 mark = (inode << 20) ^ (__u64)position;
	if (thread->names.listed_last == mark)
		return 0;
	thread->names.listed_last = mark;
	count_name(thread, NAMES_LISTED);
	return 0;
}

SEC("tp_btf/ext4_allocate_inode")
int BPF_PROG(on_ext4_create, struct inode *inode, struct inode *directory, int mode)
{
	struct thread *thread = (mode & S_IFMT) == S_IFREG ? counted_thread() : 0;
	if (thread)
		count_name(thread, NAMES_CREATED);
	return 0;
}

SEC("tp_btf/ext4_unlink_enter")
int BPF_PROG(on_ext4_unlink)
{
	struct thread *thread = counted_thread();
	if (thread)
		count_name(thread, NAMES_REMOVED);
	return 0;
}

/* Number of page cache reads by all programs. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} page_reads SEC(".maps");

/* Page cache reads: one or more for each reading call. A file is counted when it is read from the start and is not
 * one of the last few: a database rereads its first page for each transaction. */
SEC("tp_btf/mm_filemap_get_pages")
int BPF_PROG(on_read_pages, struct address_space *mapping, unsigned long index)
{
	__u32 zero = 0;
	__u64 *reads = bpf_map_lookup_elem(&page_reads, &zero);
	if (reads)
		*reads += 1;
	if (index)
		return 0;
	struct thread *thread = counted_thread();
	if (!thread)
		return 0;
	struct inode *inode = BPF_CORE_READ(mapping, host);
	/* Consecutive files may have the same address and number. */
	__u64 mark = (__u64)inode ^ (__u64)BPF_CORE_READ(inode, i_generation) << 32;
	for (__u32 n = 0; n < READ_LAST; n++)
		if (thread->names.read_last[n] == mark)
			return 0;
	if ((BPF_CORE_READ(inode, i_mode) & S_IFMT) != S_IFREG)
		return 0;
	thread->names.read_last[thread->names.read_next % READ_LAST] = mark;
	thread->names.read_next += 1;
	__sync_fetch_and_add(&control.read, 1);
	count_name(thread, NAMES_READ);
	return 0;
}

#endif
