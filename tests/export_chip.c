/* For export.sh: the actions of an exported policy (policy.h, discrete) for observations that are the same on every
   chip, as one number; and what an action takes, where that can be counted: instructions of a Cortex-M3 in QEMU
   (mps2-an385, no C library), cycles of an ATmega328P in simavr, which prints what the serial port gets. */
#include "policy.h"

enum { OBSERVATIONS = 64 };

static unsigned long stream = 1;

/* -2 to 2, in 16 bits: the same on every chip. */
static float number(void) {
    stream = (stream * 1103515245UL + 12345UL) & 0x7fffffffUL;
    return (float)(long)(stream >> 15) * (1.0f / 16384.0f) - 2.0f;
}

static unsigned long actions(void) {
    unsigned long hash = 5381;
    float obs[policy_OBS];
    int i, j;
    for (i = 0; i < OBSERVATIONS; ++i) {
        for (j = 0; j < policy_OBS; ++j) obs[j] = number();
        hash = (hash * 33UL + (unsigned long)policy_predict(obs)) & 0x3fffffffUL;
    }
    return hash;
}

static char *spell(char *end, unsigned long n) {
    do *--end = (char)('0' + n % 10);
    while ((n /= 10) > 0);
    return end;
}

#if defined(__arm__)
#define REGISTER(at) (*(volatile unsigned *)(at))

static void call(int what, const void *argument) { /* of the machine that emulates this one */
    register int r0 __asm__("r0") = what;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

static void print(unsigned long n, char last) {
    char text[16];
    text[14] = last, text[15] = 0;
    call(4, spell(text + 14, n));
}

void start(void);
void start(void) {
    unsigned before, after;
    unsigned long hash;
    REGISTER(0xe000e014) = 0xffffff; /* SysTick: 25 MHz, and -icount shift=0 makes an instruction 1 ns */
    REGISTER(0xe000e018) = 0;
    REGISTER(0xe000e010) = 5;
    before = REGISTER(0xe000e018);
    hash = actions();
    after = REGISTER(0xe000e018);
    print(hash, ' ');
    print(((before - after) & 0xffffff) * 40UL / OBSERVATIONS, '\n');
    call(0x18, (const void *)0x20026); /* ends it */
}

__attribute__((section(".vectors"), used)) static void *const vectors[2] = {(void *)0x20100000,
                                                                            (void *)start};

#elif defined(__AVR__)
#include <avr/interrupt.h>
#include <avr/io.h>
#include <avr/sleep.h>

static void print(unsigned long n, char last) {
    char text[16], *c;
    text[14] = last, text[15] = 0;
    for (c = spell(text + 14, n); *c; ++c) {
        while (!(UCSR0A & (1 << UDRE0))) {
        }
        UDR0 = (unsigned char)*c;
    }
}

int main(void) {
    TCCR1B = 5; /* the timer counts every 1024 cycles */
    print(actions(), ' ');
    print(TCNT1 * 1024UL / OBSERVATIONS, '\n');
    cli();
    sleep_enable();
    sleep_cpu(); /* ends the simulation */
    return 0;
}

#else
#include <stdio.h>

int main(void) {
    char text[16];
    text[15] = 0;
    return puts(spell(text + 15, actions())) < 0;
}
#endif
