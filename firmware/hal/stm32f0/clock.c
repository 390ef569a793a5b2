/* Clock of the STM32F0x1: 8 MHz from outside, alone or through the PLL. */
#include "board.h"
#include "parts.h"
#include "regs.h"

#define HSI_HZ 8000000u
#define USES_PLL (BOARD_CLOCK_HZ != BOARD_CRYSTAL_HZ)
/* RM0091 3.5.1, LATENCY: no wait state up to 24 MHz, one up to 48 MHz. */
#define WAIT_STATES (BOARD_CLOCK_HZ > 24000000u ? 1u : 0u)

_Static_assert(BOARD_CLOCK_HZ % BOARD_CRYSTAL_HZ == 0 && BOARD_CLOCK_HZ <= 48000000u, "CLOCK: no setting is known");
_Static_assert(!USES_PLL || BOARD_CLOCK_HZ / (HSI_HZ / 2u) <= 16u, "CLOCK: unreachable without the crystal");

/* AHB and APB prescalers are 1: both may run at 48 MHz (RM0091 6.2). */
static int switch_to(uint32_t source) {
    RCC_CFGR |= source;
    return wait_for(&RCC_CFGR, RCC_CFGR_SWS_MASK, source << 2);
}

static int start_pll(uint32_t source_and_factor) {
    RCC_CR &= ~RCC_CR_PLLON;
    if (!wait_for(&RCC_CR, RCC_CR_PLLRDY, 0)) {
        return 0;
    }
    RCC_CFGR = source_and_factor;
    RCC_CR |= RCC_CR_PLLON;
    return wait_for(&RCC_CR, RCC_CR_PLLRDY, RCC_CR_PLLRDY) && switch_to(RCC_CFGR_SW_PLL);
}

/* The mode can be changed only while the oscillator is off. */
static int start_hse(uint32_t bypass) {
    RCC_CR &= ~RCC_CR_HSEON;
    RCC_CR = (RCC_CR & ~RCC_CR_HSEBYP) | bypass;
    RCC_CR |= RCC_CR_HSEON;
    return wait_for(&RCC_CR, RCC_CR_HSERDY, RCC_CR_HSERDY);
}

/* A board may have a clock from outside, or a crystal. */
int clock_restart(void) {
    return (start_hse(RCC_CR_HSEBYP) || start_hse(0)) &&
           (USES_PLL ? start_pll(RCC_CFGR_PLLSRC_CRYSTAL | RCC_CFGR_PLLMUL(BOARD_CLOCK_HZ / BOARD_CRYSTAL_HZ))
                     : switch_to(RCC_CFGR_SW_HSE));
}

struct clock clock_start(void) {
    /* Prefetch is switched on at a low clock (RM0091 3.2.1); wait states come before the clock that they are for. */
    FLASH_ACR = WAIT_STATES | FLASH_ACR_PRFTBE;
    if (wait_for(&FLASH_ACR, FLASH_ACR_LATENCY_MASK, WAIT_STATES)) {
        if (clock_restart()) {
            return (struct clock){BOARD_CLOCK_HZ, BOARD_CLOCK_HZ, "crystal"};
        }
        RCC_CR &= ~RCC_CR_HSEON;
        if (USES_PLL && start_pll(RCC_CFGR_PLLMUL(BOARD_CLOCK_HZ / (HSI_HZ / 2u)))) {
            return (struct clock){BOARD_CLOCK_HZ, BOARD_CLOCK_HZ, "internal"};
        }
    }
    return (struct clock){HSI_HZ, HSI_HZ, "internal"};
}
