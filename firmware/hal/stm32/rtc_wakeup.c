/* Woken by the wake-up timer, which counts half the LSI's periods. */
#include "parts.h"
#include "regs.h"

void rtc_wake_in(uint32_t ticks) {
    rtc_wake_off();
    (void)wait_for(&RTC_ISR, RTC_ISR_WUTWF, RTC_ISR_WUTWF);
    RTC_WUTR = ticks / 2u - 1u;
    RTC_CR = (RTC_CR & ~RTC_CR_WUCKSEL_MASK) | RTC_CR_WUCKSEL_HALF;
    RTC_CR |= RTC_CR_WUTE | RTC_CR_WUTIE;
}

void rtc_wake_off(void) {
    RTC_CR &= ~(RTC_CR_WUTE | RTC_CR_WUTIE);
    RTC_ISR &= ~(RTC_ISR_WUTF | RTC_ISR_INIT);
}
