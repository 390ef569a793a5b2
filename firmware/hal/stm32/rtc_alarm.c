/* Woken by alarm A, on the sub-seconds alone. */
#include "parts.h"
#include "regs.h"

void rtc_wake_in(uint32_t ticks) {
    rtc_wake_off();
    (void)wait_for(&RTC_ISR, RTC_ISR_ALRAWF, RTC_ISR_ALRAWF);
    RTC_ALRMAR = RTC_ALRMAR_ANY;
    RTC_ALRMASSR = RTC_ALRMASSR_ALL | (~(rtc_ticks() + ticks) & RTC_TICKS_MASK);
    RTC_CR |= RTC_CR_ALRAE | RTC_CR_ALRAIE;
}

void rtc_wake_off(void) {
    RTC_CR &= ~(RTC_CR_ALRAE | RTC_CR_ALRAIE);
    RTC_ISR &= ~(RTC_ISR_ALRAF | RTC_ISR_INIT);
}
