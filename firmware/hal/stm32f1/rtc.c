/* The RTC of the STM32F1, a counter of 32 bits: two periods of the LSI a tick, the least that raises its flags as it
   should (RM0041 15.4.3). */
#include "parts.h"
#include "regs.h"

#define DIVIDER 2u

/* Writes take effect by and by: each waits for the one before (RM0041 15.3.4). */
static int settled(void) {
    return wait_for(&RTC_CRL, RTC_CRL_RTOFF, RTC_CRL_RTOFF);
}

int rtc_start(void) {
    if (!settled()) {
        return 0;
    }
    RTC_CRL |= RTC_CRL_CNF;
    RTC_PRLH = 0;
    RTC_PRLL = DIVIDER - 1u;
    RTC_CRL &= ~RTC_CRL_CNF;
    if (!settled()) {
        return 0;
    }
    RTC_CRH = RTC_CRH_ALRIE;
    return settled();
}

/* The registers lag until they are synchronised, after a stop for instance. */
uint32_t rtc_ticks(void) {
    RTC_CRL &= ~RTC_CRL_RSF;
    (void)wait_for(&RTC_CRL, RTC_CRL_RSF, RTC_CRL_RSF);
    uint32_t high, low;
    do {
        high = RTC_CNTH;
        low = RTC_CNTL;
    } while (high != RTC_CNTH);
    return high << 16 | low;
}

/* The flag rises just before the counter passes the alarm, and a tick and a half go by until it is set. */
void rtc_wake_in(uint32_t ticks) {
    uint32_t alarm = rtc_ticks() + ticks + 1u;
    (void)settled();
    RTC_CRL |= RTC_CRL_CNF;
    RTC_ALRH = alarm >> 16;
    RTC_ALRL = alarm & 0xFFFFu;
    RTC_CRL &= ~(RTC_CRL_CNF | RTC_CRL_ALRF);
    (void)settled();
}

/* The counter comes by again only in a day. */
void rtc_wake_off(void) {
    RTC_CRL &= ~RTC_CRL_ALRF;
}
