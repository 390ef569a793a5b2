/* Firmware with known instruction sequences for tests of the emulated DUT. Takes one command byte at a time over
   USART1, answers with lines. Every sequence that is timed is written in assembler, so that its cycles can be counted
   by hand. */
#include <stdint.h>

#define REG(a) (*(volatile uint32_t *)(a))
extern uint32_t stack_top;
void reset_handler(void);

__attribute__((section(".vectors"), used)) const void *vectors[2] = {&stack_top, reset_handler};

/* PC6 up and down. After the store: bx lr. */
__asm__(".syntax unified\n.thumb\n.text\n.align 2\n"
        ".thumb_func\n.type pin_high, %function\npin_high: movs r2, #64\n ldr r3, =0x40011010\n str r2, [r3]\n bx lr\n"
        ".ltorg\n.align 2\n"
        ".thumb_func\n.type pin_low, %function\npin_low: movs r2, #64\n ldr r3, =0x40011014\n str r2, [r3]\n bx lr\n"
        ".ltorg\n");

#define WINDOW(name, body)                                                                                             \
    void name(void);                                                                                                   \
    __asm__(".align 2\n.thumb_func\n.global " #name "\n.type " #name ", %function\n" #name                             \
            ": push {r4, lr}\n bl pin_high\n" body "\n bl pin_low\n pop {r4, pc}\n.ltorg\n")

WINDOW(window_empty, "");
WINDOW(window_nops, ".rept 100\n nop\n .endr");
WINDOW(window_many_nops, ".rept 5000\n nop\n .endr");
WINDOW(window_loop, "movw r0, #1000\n 1: subs r0, #1\n bne 1b");
WINDOW(window_long_loop, "ldr r0, =11500000\n 1: subs r0, #1\n bne 1b");
WINDOW(window_memory,
       "push {r0, r1, r2, r3}\n ldr r0, =0x20000100\n movs r1, #3\n str r1, [r0]\n str r1, [r0, r1, lsl #2]\n"
       "ldr r2, [r0]\n ldrb r2, [r0, #1]\n ldrd r2, r3, [r0]\n stm r0, {r1, r2, r3}\n pop {r0, r1, r2, r3}");
WINDOW(window_arithmetic,
       "movs r0, #7\n movs r1, #5\n muls r1, r0\n mla r1, r0, r1, r1\n umull r1, r2, r0, r1\n umlal r1, r2, r0, r1\n"
       "udiv r1, r1, r0");
WINDOW(window_it, "movs r0, #1\n cmp r0, #1\n ite eq\n addeq r1, r0, #1\n addne r1, r0, #2\n nop");
/* SysTick to 0 in 1000 ticks of the core clock, pending; sleep until then; off again, pending bit cleared. */
WINDOW(window_sleep,
       "ldr r0, =0xE000E010\n movw r1, #999\n str r1, [r0, #4]\n movs r1, #0\n str r1, [r0, #8]\n movs r1, #7\n"
       "str r1, [r0]\n wfi\n"
       "ldr r2, [r0]\n movs r1, #0\n str r1, [r0]\n ldr r0, =0xE000ED04\n mov r1, #0x02000000\n str r1, [r0]");

static uint32_t cycle_count(void)
{
    uint32_t count;
    __asm__ volatile("ldr %0, =0xE0001004\n ldr %0, [%0]" : "=r"(count));
    return count;
}

static void send(char c)
{
    while (!(REG(0x40013800) & 0x80)) {
    }
    REG(0x40013804) = (uint8_t)c;
}

static void send_hex(char key, uint32_t value)
{
    send(key);
    send('=');
    for (int shift = 28; shift >= 0; shift -= 4) {
        send("0123456789ABCDEF"[value >> shift & 15]);
    }
    send('\n');
}

static void send_line(const char *text)
{
    while (*text) {
        send(*text++);
    }
    send('\n');
}

#pragma GCC diagnostic ignored "-Winfinite-recursion"
__attribute__((noinline)) static uint32_t endless_recursion(uint32_t depth)
{
    volatile uint32_t frame[16];
    frame[depth & 15] = depth;
    return endless_recursion(depth + 1) + frame[depth & 15];
}

__attribute__((noinline)) static void store_at(uint32_t address)
{
    REG(address) = 1;
}

__attribute__((noinline)) static uint32_t load_at(uint32_t address)
{
    return REG(address);
}

static void clock_24_mhz(void)
{
    REG(0x40021000) |= 1u << 16;
    while (!(REG(0x40021000) & 1u << 17)) {
    }
    REG(0x40021004) = 1u << 18 | 1u << 16; /* HSE x 3 */
    REG(0x40021000) |= 1u << 24;
    while (!(REG(0x40021000) & 1u << 25)) {
    }
    REG(0x40021004) |= 2;
    while ((REG(0x40021004) & 0xC) != 8) {
    }
}

static void ports(void)
{
    REG(0x40021018) |= 1u << 14 | 1u << 4 | 1u << 2;
    REG(0x40011000) = 0x42444444; /* PC6 output */
    REG(0x40010804) = 0x444444B4; /* PA9 alternate output */
    REG(0x40013808) = 208;
    REG(0x4001380C) = 1u << 13 | 1u << 3 | 1u << 2;
}

void reset_handler(void)
{
    __asm__ volatile("cpsid i");
    clock_24_mhz();
    ports();
    REG(0xE000EDFC) |= 1u << 24;
    REG(0xE0001000) |= 1;
    send_line("boot*1A2B");
    for (;;) {
        while (!(REG(0x40013800) & 0x20)) {
        }
        uint32_t before = 0;
        switch (REG(0x40013804)) {
        case '0': window_empty(); break;
        case 'n': window_nops(); break;
        case 'N': window_many_nops(); break;
        case 'l': window_loop(); break;
        case 'L': window_long_loop(); break;
        case 'm': window_memory(); break;
        case 'a': window_arithmetic(); break;
        case 'i': window_it(); break;
        case 'w': window_sleep(); break;
        case 'c':
            before = cycle_count();
            window_loop();
            send_hex('c', cycle_count() - before);
            break;
        case 'C':
            before = cycle_count();
            window_sleep();
            send_hex('c', cycle_count() - before);
            break;
        case 'k': REG(0x40021004) &= ~3u; window_empty(); break;
        case 'p':
            store_at(0x40000400);
            send_hex('p', load_at(0x40000400));
            send_hex('q', load_at(0x40000404));
            break;
        case 'v': send_hex('v', load_at(0x20000400)); store_at(0x20000400); break;
        case 's': endless_recursion(before); break;
        case 'b': load_at(0x30000000); break;
        case 'f': store_at(0x08000000); break;
        case 'j': ((void (*)(void))0x60000001)(); break;
        case 'u': __asm__ volatile("udf #0"); break;
        case 'h': __asm__ volatile("1: b 1b");
        case 'd': __asm__ volatile("wfi"); break;
        case 'I':
            REG(0xE000E014) = 99;
            REG(0xE000E010) = 7;
            __asm__ volatile("cpsie i\n wfi");
            break;
        default: send_line("unknown*0000");
        }
    }
}
