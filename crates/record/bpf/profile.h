/* Records from the programs of a profile to the reader; src/profile/raw.rs has the same. */
#ifndef THALWEG_PROFILE_H
#define THALWEG_PROFILE_H

/* The kernel's maximum (kernel.perf_event_max_stack is 127 by default), for kernel and user frames each. */
#define PROFILE_FRAMES 127

#define PROFILE_USER 1
#define PROFILE_SOFTIRQ 2
#define PROFILE_HARDIRQ 4
#define PROFILE_KERNEL_THREAD 8
#define PROFILE_32_BIT 16
/* Not a sample but the stack of a recorded thread's wait, taken on its return at `at_ns`; `name` begins with the
 * start of the wait. */
#define PROFILE_WAIT 32

/* Minimum wait whose stack is taken: two stacks take 7 to 17 us, and a run of shorter waits is described by their
 * number. */
#define WAIT_STACK_NS 1000000
/* Stacks of waits may take one in this many parts of each CPU's time: a fifth of what samples take. Unused time is
 * saved, so that threads returning one after another all get their stacks. */
#define WAIT_STACK_PART 200
#define WAIT_STACK_SAVED_NS 2000000
/* The second half of the saved time is reserved for waits at least this long. */
#define WAIT_STACK_LONG_NS (10 * WAIT_STACK_NS)

/* In place of user frames, the record has registers (struct profile_registers) and the top of the stack up to its
 * end. */
#define PROFILE_STACK 64

/* From this bit on: number of event counters before the frames. */
#define PROFILE_EVENTS_SHIFT 12
#define PROFILE_EVENTS 6

/* struct bpf_perf_event_value: the count, the time enabled, and the time running. */
#define PROFILE_EVENT_WORDS 3

struct profile_sample {
	__u64 at_ns;
	__u32 pid;
	__u32 tid;
	__u16 cpu;
	__u16 flags;
	__u16 kernel_frames;
	__u16 user_frames;
	char name[16];
	/* The CPU's event counters, of three words each; then the kernel frames, innermost first, and then the user frames. */
	__u64 frames[PROFILE_EVENTS * PROFILE_EVENT_WORDS + 2 * PROFILE_FRAMES];
};
#define PROFILE_HEAD 40

/* Stacks of waits on a CPU. */
struct wait_counts {
	__u64 last_ns;	/* up to when `saved_ns` was counted */
	__s64 saved_ns;	/* time the next ones may take */
	__u64 taken;
	__u64 left_out;	/* they would have taken too much time */
	__u64 lost;	/* no room in the ring */
};

/* The program's registers, at its current instruction or its system call. */
struct profile_registers {
	__u64 ip;
	__u64 sp;
	__u64 fp;
	__u64 lr;	/* aarch64: the return address of a leaf function */
};

/* Maximum bytes copied of a stack, and the size of the pieces copied: after one that is not in memory, no more is
 * read. */
#define PROFILE_MOST_STACK (64 << 10)
#define PROFILE_PIECE 4096

/* A sample with a copy of the stack. Larger than a per-CPU map entry may be, so it is an element of an array. */
struct profile_copy {
	struct profile_sample sample;
	struct profile_registers registers;
	char stack[PROFILE_MOST_STACK + PROFILE_PIECE];
};

/* A CPU's times since it was first settled. */
struct processor_times {
	__u64 last_ns;	/* up to when */
	__u64 idle_ns;
	__u64 hardirq_ns;
	__u64 busy_ns;
	__u64 sampler_ns;
	__u64 taken;
	__u64 lost;
	__u32 hard;	/* current nesting of hard interrupts */
	__u32 soft;
};

#endif
