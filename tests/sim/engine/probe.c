/* Firmware with known instruction sequences for tests of the emulated DUT, for any Cortex-M core in place of the
   STM32F100's own. Takes one command byte at a time over USART1, answers with lines. Every sequence that is timed is
   written in assembler, so that its cycles can be counted by hand. */
#include <stdint.h>

#define REG(a) (*(volatile uint32_t *)(a))
extern uint32_t stack_top;
void reset_handler(void);

__attribute__((section(".vectors"), used)) const void *vectors[2] = {&stack_top, reset_handler};

/* PC6 up and down, without a read from flash. After the store: bx lr. */
#define PIN(name, offset)                                                                                              \
    __asm__(".syntax unified\n.thumb\n.text\n.align 5\n.thumb_func\n.type " #name ", %function\n" #name                   \
            ": movs r2, #64\n movs r3, #128\n lsls r3, r3, #11\n adds r3, #17\n lsls r3, r3, #12\n"                     \
            "str r2, [r3, #" #offset "]\n bx lr\n")

PIN(pin_high, 16);
PIN(pin_low, 20);

#define WINDOW(name, body)                                                                                             \
    __asm__(".align 5\n.thumb_func\n.global " #name "\n.type " #name ", %function\n" #name                             \
            ": push {r4, lr}\n bl pin_high\n" body "\n bl pin_low\n pop {r4, pc}\n.ltorg\n")

void window_empty(void), window_nops(void), window_many_nops(void), window_call(void), window_loop(void);
void window_long_loop(void), window_memory(void), window_arithmetic(void), window_it(void), window_sleep(void);
void window_reads(void), window_eight_lines(void), window_nine_lines(void);
WINDOW(window_empty, "");
WINDOW(window_nops, ".rept 100\n nop\n .endr");
WINDOW(window_many_nops, ".rept 5000\n nop\n .endr");
WINDOW(window_call, "bl called");
__asm__(".align 2\n.thumb_func\n.type called, %function\ncalled: push {r4, lr}\n movs r0, #1\n pop {r4, pc}\n");
#ifdef __ARM_ARCH_6M__
WINDOW(window_loop, "movs r0, #250\n lsls r0, r0, #2\n 1: subs r0, #1\n bne 1b");
WINDOW(window_long_loop, "ldr r0, =11500000\n 1: subs r0, #1\n bne 1b");
WINDOW(window_memory,
       "push {r0, r1, r2, r3}\n ldr r0, =0x20000100\n movs r1, #4\n str r1, [r0]\n str r1, [r0, r1]\n"
       "ldr r2, [r0]\n ldrb r2, [r0, #1]\n stm r0!, {r1, r2, r3}\n pop {r0, r1, r2, r3}");
WINDOW(window_arithmetic, "movs r0, #7\n movs r1, #5\n muls r1, r0\n mrs r1, primask\n dmb\n dsb\n isb\n adds r1, r0");
WINDOW(window_it, "");
#else
WINDOW(window_loop, "movw r0, #1000\n 1: subs r0, #1\n bne 1b");
WINDOW(window_long_loop, "ldr r0, =11500000\n 1: subs r0, #1\n bne 1b");
WINDOW(window_memory,
       "push {r0, r1, r2, r3}\n ldr r0, =0x20000100\n movs r1, #3\n str r1, [r0]\n str r1, [r0, r1, lsl #2]\n"
       "ldr r2, [r0]\n ldrb r2, [r0, #1]\n ldrd r2, r3, [r0]\n stm r0, {r1, r2, r3}\n pop {r0, r1, r2, r3}");
WINDOW(window_arithmetic,
       "movs r0, #7\n movs r1, #5\n muls r1, r0\n mla r1, r0, r1, r1\n umull r1, r2, r0, r1\n umlal r1, r2, r0, r1\n"
       "udiv r1, r1, r0");
WINDOW(window_it, "movs r0, #1\n cmp r0, #1\n ite eq\n addeq r1, r0, #1\n addne r1, r0, #2\n nop");
#endif
/* Reads from flash: two lines of 16 bytes, then eight in turn, nine in turn. */
__asm__(".align 5\nflash_table: .space 160, 0x5A\n");
WINDOW(window_reads, "ldr r0, =flash_table\n ldr r1, [r0]\n ldr r1, [r0, #4]\n ldr r1, [r0, #16]\n ldr r1, [r0, #20]\n ldr r1, [r0]");
#define EIGHT_READS                                                                                                    \
    "ldr r0, =flash_table\n movs r1, #3\n movs r3, #128\n"                                                              \
    "1: ldr r2, [r0]\n ldr r2, [r0, #16]\n ldr r2, [r0, #32]\n ldr r2, [r0, #48]\n"                                     \
    "ldr r2, [r0, #64]\n ldr r2, [r0, #80]\n ldr r2, [r0, #96]\n ldr r2, [r0, #112]\n"
WINDOW(window_eight_lines, EIGHT_READS "subs r1, #1\n bne 1b");
WINDOW(window_nine_lines, EIGHT_READS "ldr r2, [r0, r3]\n subs r1, #1\n bne 1b");
#ifdef __ARM_ARCH_6M__
WINDOW(window_read_in_it, "");
#else
/* A read from flash inside an IT block, then a branch: gives 7. */
WINDOW(window_read_in_it,
       "movs r0, #1\n ldr r2, =flash_table\n cmp r0, #1\n it eq\n ldreq r1, [r2]\n cmp r0, #2\n b 1f\n 1: movs r0, #7");
#endif
/* SysTick to 0 in 1000 ticks of the core clock, pending; sleep until then; off again, pending bit cleared. */
WINDOW(window_sleep,
       "ldr r0, =0xE000E010\n ldr r1, =999\n str r1, [r0, #4]\n movs r1, #0\n str r1, [r0, #8]\n movs r1, #7\n"
       "str r1, [r0]\n wfi\n"
       "ldr r2, [r0]\n movs r1, #0\n str r1, [r0]\n ldr r0, =0xE000ED04\n movs r1, #1\n lsls r1, r1, #25\n str r1, [r0]");

uint32_t window_read_in_it(void);

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

static char receive(void)
{
    while (!(REG(0x40013800) & 0x20)) {
    }
    return (char)REG(0x40013804);
}

/* Three digits. */
static uint32_t receive_hex(void)
{
    uint32_t value = 0;
    for (int k = 0; k < 3; k++) {
        char c = receive();
        value = value << 4 | (uint32_t)(c <= '9' ? c - '0' : c - 'A' + 10);
    }
    return value;
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
        uint32_t before = 0;
        switch (receive()) {
        case '0': window_empty(); break;
        case 'n': window_nops(); break;
        case 'N': window_many_nops(); break;
        case 'l': window_loop(); break;
        case 'L': window_long_loop(); break;
        case 'm': window_memory(); break;
        case 'a': window_arithmetic(); break;
        case 'i': window_it(); break;
        case 'w': window_sleep(); break;
        case 'g': window_call(); break;
        case 'r': window_reads(); break;
        case '8': window_eight_lines(); break;
        case '9': window_nine_lines(); break;
        case 't': send_hex('t', window_read_in_it()); break;
        case 'x': REG(0x40022000) = receive_hex(); break; /* FLASH_ACR */
        case 'y': REG(0xE000ED14) = receive_hex() << 16; break; /* CCR: caches of the core */
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
        case 'B': store_at(0x1ffffffc); break;
        case 'o': load_at(0x1ffff7e0); break;
        case 'f': store_at(0x08000000); break;
        case 'j': ((void (*)(void))0x60000001)(); break;
        case 'u': __asm__ volatile("udf #0"); break;
        case 'h': __asm__ volatile("1: b 1b");
        case 'd': __asm__ volatile("wfi"); break;
        case 'D': REG(0xE000ED10) = 4; window_sleep(); break;
        case 'I':
            REG(0xE000E014) = 99;
            REG(0xE000E010) = 7;
            __asm__ volatile("cpsie i\n wfi");
            break;
        default: send_line("unknown*0000");
        }
    }
}
