/* A function of a library that calls back: `chain.c` is above it in the stack and below it. */
volatile long relayed;
void chain_relay(long (*to)(long), long rounds) {
    long got = to(rounds);
    relayed += got;
}
