/* Reads the arguments of poll(2) and select(2) for what they wait for. */

/* Returns the descriptor that a thread polls, if it is a single one, from its memory. Otherwise a number that no
 * descriptor has. */
__noinline __u32 polled(__u64 descriptors)
{
	__u32 descriptor = ~0u;
	if (bpf_probe_read_user(&descriptor, sizeof(descriptor), (void *)descriptors))
		return ~0u;
	return descriptor;
}

/* Returns select(2)'s single descriptor, from its first two sets, if they fit into one word. */
__noinline __u32 selected(__u32 most, __u64 reads, __u64 writes)
{
	__u64 first = 0, second = 0;
	if (!most || most > 64)
		return ~0u;
	if (reads)
		bpf_probe_read_user(&first, sizeof(first), (void *)reads);
	if (writes)
		bpf_probe_read_user(&second, sizeof(second), (void *)writes);
	return (first | second) == 1ull << (most - 1) ? most - 1 : ~0u;
}

/* Makes the single descriptor of a poll(2) or select(2) the call's first. OFF_POLLS_NOTHING if there is none. */
static __always_inline __u32 one_polled(struct task_struct *task, struct pt_regs *regs, __u32 *flags, __u64 *first)
{
	__u64 second = CALL_ARGUMENT1(regs), third = CALL_ARGUMENT2(regs);
	_Bool sets = CALL_PATH(*flags) == PATH_SETS, array = *flags & CALL_POLLS_ONE;
	if ((array && !second) || (sets && (!*first || (!second && !third))))
		return OFF_POLLS_NOTHING;
	if ((!sets && !(array && second == 1)) || task != bpf_get_current_task_btf())
		return 0;
	*first = sets ? selected(*first, second, third) : polled(*first);
	*flags |= CALL_FD0;
	return 0;
}
