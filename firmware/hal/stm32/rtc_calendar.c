/* The calendar's sub-seconds as a counter: one tick each period of the LSI, 32768 ticks a turn. */
#include "parts.h"
#include "regs.h"

int rtc_start(void) {
    RTC_WPR = 0xCAu; /* the keys to its registers */
    RTC_WPR = 0x53u;
    RTC_CR = RTC_CR_BYPSHAD; /* SSR is read itself: its shadow is stale after stop */
    RTC_ISR |= RTC_ISR_INIT;
    if (!wait_for(&RTC_ISR, RTC_ISR_INITF, RTC_ISR_INITF)) {
        return 0;
    }
    /* The synchronous divider, then the asynchronous one, which is 1: two writes (RM0090 26.3.5). */
    RTC_PRER = RTC_TICKS_MASK | 0x7Fu << 16;
    RTC_PRER = RTC_TICKS_MASK;
    RTC_ISR &= ~RTC_ISR_INIT;
    return 1;
}

uint32_t rtc_ticks(void) {
    uint32_t now = RTC_SSR;
    for (uint32_t before = ~now; before != now;) { /* not in the middle of a change */
        before = now;
        now = RTC_SSR;
    }
    return ~now & RTC_TICKS_MASK; /* it counts down */
}
