/* What the programs of a profile hand to the reader; src/profile/raw.rs has the same. */
#ifndef THALWEG_PROFILE_H
#define THALWEG_PROFILE_H

/* As many as the kernel unwinds (kernel.perf_event_max_stack is 127 by default), of the kernel and of the program each. */
#define PROFILE_FRAMES 127

#define PROFILE_USER 1
#define PROFILE_SOFTIRQ 2
#define PROFILE_HARDIRQ 4
#define PROFILE_KERNEL_THREAD 8
#define PROFILE_32_BIT 16
/* No sample: where a recorded thread waited that has just come back. `at_ns` is when it was taken, `name` begins with when the wait began. */
#define PROFILE_WAIT 32

/* A wait must be so long for its stack to be taken: two stacks take 7 to 17 us, and a run that is made of shorter waits is described by how many
 * there are. */
#define WAIT_STACK_NS 1000000
/* Stacks of waits may take a two-hundredth of each processor's time: a fifth of what samples take. What is not used is saved for later, so
 * that threads that come back one after the other all have theirs. */
#define WAIT_STACK_PART 200
#define WAIT_STACK_SAVED_NS 2000000
/* The second half of what is saved is kept for waits of so long. */
#define WAIT_STACK_LONG_NS (10 * WAIT_STACK_NS)

/* Instead of frames of the program there are its registers (struct profile_registers) and the top of its stack, to the record's end. */
#define PROFILE_STACK 64

/* From this bit on: how many counters of events stand before the frames. */
#define PROFILE_EVENTS_SHIFT 12
#define PROFILE_EVENTS 6

/* struct bpf_perf_event_value: what was counted, for how long it was meant to be, and for how long it was. */
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
	/* The counters of events as the processor has them, of three words each; then the frames of the kernel, innermost first, and
	 * then those of the program. */
	__u64 frames[PROFILE_EVENTS * PROFILE_EVENT_WORDS + 2 * PROFILE_FRAMES];
};
#define PROFILE_HEAD 40

/* Stacks of waits on a processor. */
struct wait_counts {
	__u64 last_ns;	/* up to when `saved_ns` was counted */
	__s64 saved_ns;	/* what the next may take */
	__u64 taken;
	__u64 left_out;	/* they would have taken too much time */
	__u64 lost;	/* no room in the ring */
};

/* Of the program, where it runs or where it called the kernel. */
struct profile_registers {
	__u64 ip;
	__u64 sp;
	__u64 fp;
	__u64 lr;	/* aarch64: where a function that calls nobody returns to */
};

/* As much of a stack as can be copied, and the pieces in which it is: what lies behind one that is not there is not read. */
#define PROFILE_MOST_STACK (64 << 10)
#define PROFILE_PIECE 4096

/* A sample with a copy of the stack. Larger than what each processor may have of a map, so it is one of an array. */
struct profile_copy {
	struct profile_sample sample;
	struct profile_registers registers;
	char stack[PROFILE_MOST_STACK + PROFILE_PIECE];
};

/* How a processor has spent its time since it was first settled. */
struct processor_times {
	__u64 last_ns;	/* up to when */
	__u64 idle_ns;
	__u64 hardirq_ns;
	__u64 busy_ns;
	__u64 sampler_ns;
	__u64 taken;
	__u64 lost;
	__u32 hard;	/* nested hard interrupts it is in */
	__u32 soft;
};

#endif
