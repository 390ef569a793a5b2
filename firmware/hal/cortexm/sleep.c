/* Sleep timed by the SysTick, without an interrupt. */
#include "core.h"
#include "hal.h"

/* One stretch of sleep. The pending SysTick wakes WFI although PRIMASK is set, and no handler runs (ARM DDI 0403
   B1.5.19, DDI 0419 B1.5.17). The cycle counter may stand still while the core sleeps, so it is set from the SysTick
   afterwards. */
static void sleep_cycles(uint32_t cycles) {
    SYST_RVR = cycles - 1u;
    SYST_CVR = 0;
    SCB_ICSR = SCB_ICSR_PENDSTCLR;
    uint32_t start = counter_get();
    SYST_CSR = SYST_CSR_ENABLE | SYST_CSR_TICKINT | SYST_CSR_CLKSOURCE;
    while (!(SYST_CSR & SYST_CSR_COUNTFLAG)) {
        __asm volatile("dsb\n\twfi" ::: "memory");
    }
    uint32_t since = cycles - SYST_CVR; /* the reload from 0 takes a tick of its own */
    counter_put(start + cycles + since);
    SYST_CSR = 0;
    SCB_ICSR = SCB_ICSR_PENDSTCLR;
    __asm volatile("dsb\n\tisb" ::: "memory");
}

void hal_sleep_us(uint32_t us) {
    uint32_t left = us * (hal_clock_hz() / 1000000u);
    while (left > 0) {
        /* Never leaves a remainder too short to sleep through. */
        uint32_t cycles = left > SYST_SPAN ? SYST_SPAN / 2u : left;
        sleep_cycles(cycles);
        left -= cycles;
    }
}
