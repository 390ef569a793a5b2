/* Stop mode: all clocks off but the LSI, which drives the RTC, which wakes. SysTick and cycle counter stand still, so how
   long it lasts is told by the RTC, its LSI measured beforehand: that oscillator is anywhere from 17 to 60 kHz. */
#include "stop.h"

#include "hal.h"
#include "parts.h"
#include "regs.h"

#define MEASURED_TICKS 32u

static uint32_t cycles_a_tick;
static uint32_t watch_start;

static uint32_t cycles_a_us(void) {
    return hal_clock_hz() / 1000000u;
}

static uint32_t ticks_since(uint32_t ticks) {
    return (rtc_ticks() - ticks) & RTC_TICKS_MASK;
}

/* Lets the backup domain run on the LSI. What another firmware chose for it holds until it is reset. */
static int start_low_speed_clock(void) {
    RCC_APB1ENR |= RCC_APB1ENR_STOP;
    (void)RCC_APB1ENR;
    PWR_CR |= PWR_CR_DBP;
    RCC_CSR |= RCC_CSR_LSION;
    if (!wait_for(&RCC_CSR, RCC_CSR_LSIRDY, RCC_CSR_LSIRDY)) {
        return 0;
    }
    if ((RCC_BDCR & RCC_BDCR_RTCSEL_MASK) != RCC_BDCR_RTCSEL_LSI) {
        RCC_BDCR |= RCC_BDCR_BDRST;
        RCC_BDCR &= ~RCC_BDCR_BDRST;
        RCC_BDCR |= RCC_BDCR_RTCSEL_LSI;
    }
    RCC_BDCR |= RCC_BDCR_RTCEN;
    return 1;
}

/* Waits for the next tick and looks at the SysTick, which counts down. */
static uint32_t count_at_tick(uint32_t *ticks, uint32_t n) {
    while (ticks_since(*ticks) < n) {
        hal_pause_cycles(cycles_a_us());
    }
    uint32_t count = SYST_CVR;
    *ticks += n;
    return count;
}

static void measure_tick(void) {
    SYST_RVR = SYST_SPAN - 1u;
    SYST_CVR = 0;
    SYST_CSR = SYST_CSR_ENABLE | SYST_CSR_CLKSOURCE;
    uint32_t ticks = rtc_ticks();
    uint32_t first = count_at_tick(&ticks, 1);
    uint32_t last = count_at_tick(&ticks, MEASURED_TICKS);
    SYST_CSR = 0;
    cycles_a_tick = ((first - last) % SYST_SPAN + MEASURED_TICKS / 2u) / MEASURED_TICKS;
}

int hal_idle_setup(void) {
    if (!start_low_speed_clock() || !rtc_start()) {
        return -1;
    }
    EXTI_RTSR |= EXTI_RTC;
    EXTI_IMR |= EXTI_RTC;
    measure_tick();
    return 0;
}

void hal_idle_watch_start(void) {
    watch_start = rtc_ticks();
}

uint32_t hal_idle_watch_us(void) {
    return (ticks_since(watch_start) + 1u) * cycles_a_tick / cycles_a_us() + 1u; /* the tick begun */
}

/* The pending RTC wakes WFI although PRIMASK is set, and no handler runs; see sleep.c. Its line must be low on the way
   in, or the core does not stop. */
static void stop(uint32_t us, uint32_t regulator) {
    rtc_wake_in((us * cycles_a_us() + cycles_a_tick / 2u) / cycles_a_tick);
    PWR_CR = (PWR_CR & ~(PWR_CR_PDDS | PWR_CR_LPDS)) | PWR_CR_CWUF | regulator;
    EXTI_PR = EXTI_RTC;
    NVIC_ICPR(RTC_IRQ) = NVIC_BIT(RTC_IRQ);
    NVIC_ISER(RTC_IRQ) = NVIC_BIT(RTC_IRQ);
    SCB_SCR |= SCB_SCR_SLEEPDEEP;
    __asm volatile("dsb\n\twfi" ::: "memory");
    SCB_SCR &= ~SCB_SCR_SLEEPDEEP;
    if (!clock_restart()) {
        fault_handler();
    }
    rtc_wake_off();
    EXTI_PR = EXTI_RTC;
    NVIC_ICER(RTC_IRQ) = NVIC_BIT(RTC_IRQ);
    NVIC_ICPR(RTC_IRQ) = NVIC_BIT(RTC_IRQ);
}

void hal_idle_stop(uint32_t us);
void hal_idle_lpstop(uint32_t us);

void hal_idle_stop(uint32_t us) {
    stop(us, 0);
}

void hal_idle_lpstop(uint32_t us) {
    stop(us, PWR_CR_LPDS);
}
