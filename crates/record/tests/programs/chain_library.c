/* A library function that calls back: `chain.c` is above and below it in the stack. */
volatile long relayed;
void chain_relay(long (*to)(long), long rounds) {
    long got = to(rounds);
    relayed += got;
}
