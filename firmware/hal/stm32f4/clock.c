/* Clock of the STM32F405/407: the crystal, alone or through the PLL. */
#include "board.h"
#include "parts.h"
#include "regs.h"

#define HSI_HZ 16000000u
/* The PLL gets 1 MHz; its oscillator must run between 100 and 432 MHz and is divided by 2 or 4 (RM0090 7.3.2). */
#define PLL_INPUT_HZ 1000000u
#define PLL_DIVISOR (BOARD_CLOCK_HZ > 84000000u ? 2u : 4u)
#define PLL_FACTOR (BOARD_CLOCK_HZ * PLL_DIVISOR / PLL_INPUT_HZ)
/* For USB and the like, at most 48 MHz; unused. */
#define PLL_DIVISOR_48 ((PLL_FACTOR + 47u) / 48u)
#define USES_PLL (BOARD_CLOCK_HZ != BOARD_CRYSTAL_HZ)
/* RM0090 3.5.1, 2.7 to 3.6 V: one wait state more for each 30 MHz begun. */
#define WAIT_STATES ((BOARD_CLOCK_HZ - 1u) / 30000000u)
/* RM0090 7.3.3 and the data sheet's operating conditions: APB1 up to 42 MHz, APB2 up to 84 MHz. */
#define APB1_DIVISOR (BOARD_CLOCK_HZ > 84000000u ? 4u : BOARD_CLOCK_HZ > 42000000u ? 2u : 1u)
#define APB2_DIVISOR (BOARD_CLOCK_HZ > 84000000u ? 2u : 1u)

_Static_assert(BOARD_CRYSTAL_HZ % PLL_INPUT_HZ == 0 && BOARD_CLOCK_HZ % PLL_INPUT_HZ == 0 &&
                   BOARD_CLOCK_HZ <= 168000000u && (!USES_PLL || (PLL_FACTOR >= 100u && PLL_FACTOR <= 432u)),
               "CLOCK: no setting is known");

/* Caches before the flash, and the wait states of the clock to come. */
static int start_flash(void) {
    FLASH_ACR |= FLASH_ACR_ICRST | FLASH_ACR_DCRST; /* they are off after a reset, as this demands */
    FLASH_ACR &= ~(FLASH_ACR_ICRST | FLASH_ACR_DCRST);
    /* Revision A cannot prefetch (errata sheet ES0182). */
    uint32_t prefetch = DBGMCU_IDCODE >> 16 == DBGMCU_REVISION_A ? 0 : FLASH_ACR_PRFTEN;
    FLASH_ACR = FLASH_ACR_ICEN | FLASH_ACR_DCEN | prefetch | WAIT_STATES;
    return wait_for(&FLASH_ACR, FLASH_ACR_LATENCY_MASK, WAIT_STATES);
}

static int switch_to(uint32_t source) {
    RCC_CFGR = (RCC_CFGR & ~(RCC_CFGR_SW_MASK | RCC_CFGR_PPRE1_MASK | RCC_CFGR_PPRE2_MASK)) |
               RCC_CFGR_PPRE1(APB1_DIVISOR) | RCC_CFGR_PPRE2(APB2_DIVISOR);
    RCC_CFGR |= source;
    return wait_for(&RCC_CFGR, RCC_CFGR_SWS_MASK, source << 2);
}

static int start_pll(uint32_t source, uint32_t source_hz) {
    RCC_CR &= ~RCC_CR_PLLON;
    RCC_PLLCFGR = source | RCC_PLLCFGR_M(source_hz / PLL_INPUT_HZ) | RCC_PLLCFGR_N(PLL_FACTOR) |
                  RCC_PLLCFGR_P(PLL_DIVISOR) | RCC_PLLCFGR_Q(PLL_DIVISOR_48);
    RCC_CR |= RCC_CR_PLLON;
    return wait_for(&RCC_CR, RCC_CR_PLLRDY, RCC_CR_PLLRDY) && wait_for(&PWR_CSR, PWR_CSR_VOSRDY, PWR_CSR_VOSRDY) &&
           switch_to(RCC_CFGR_SW_PLL);
}

int clock_restart(void) {
    RCC_CR |= RCC_CR_HSEON;
    return wait_for(&RCC_CR, RCC_CR_HSERDY, RCC_CR_HSERDY) &&
           (USES_PLL ? start_pll(RCC_PLLCFGR_SRC_HSE, BOARD_CRYSTAL_HZ) : switch_to(RCC_CFGR_SW_HSE));
}

struct clock clock_start(void) {
    /* Core voltage for up to 168 MHz; the reset value, said here (RM0090 5.1.3). */
    RCC_APB1ENR |= RCC_APB1ENR_PWR;
    (void)RCC_APB1ENR;
    PWR_CR |= PWR_CR_VOS;
    struct clock clock = {BOARD_CLOCK_HZ, BOARD_CLOCK_HZ / APB1_DIVISOR, "crystal"};
    if (start_flash()) {
        if (clock_restart()) {
            return clock;
        }
        RCC_CR &= ~RCC_CR_HSEON;
        clock.source = "internal";
        if (USES_PLL && start_pll(0, HSI_HZ)) {
            return clock;
        }
    }
    return (struct clock){HSI_HZ, HSI_HZ, "internal"};
}
