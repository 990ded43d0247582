/* System calls, each: tier `syscall`. */
