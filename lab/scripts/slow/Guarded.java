/** Guarded THREADS TIMES MILLISECONDS LOCKED: threads that compute, each time with one monitor for all (or, unlocked, with one of its own). */
class Guarded {
    static volatile long sink;

    public static void main(String[] words) throws Exception {
        int threads = Integer.parseInt(words[0]), times = Integer.parseInt(words[1]);
        long nanoseconds = Long.parseLong(words[2]) * 1_000_000L;
        Object common = new Object();
        Thread[] all = new Thread[threads];
        for (int at = 0; at < threads; at++) {
            Object monitor = words[3].equals("locked") ? common : new Object();
            all[at] = new Thread(() -> {
                for (int time = 0; time < times; time++) {
                    synchronized (monitor) {
                        compute(nanoseconds);
                    }
                }
            });
            all[at].start();
        }
        for (Thread thread : all) {
            thread.join();
        }
    }

    static void compute(long nanoseconds) {
        var clock = java.lang.management.ManagementFactory.getThreadMXBean();
        long until = clock.getCurrentThreadCpuTime() + nanoseconds, value = 0;
        while (clock.getCurrentThreadCpuTime() < until) {
            for (int number = 0; number < 5000; number++) {
                value += (long) number * number;
            }
        }
        sink = value;
    }
}
