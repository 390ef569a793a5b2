/* Clock of the STM32F76x/77x: the crystal, alone or through the PLL. */
#include "board.h"
#include "cache.h"
#include "parts.h"
#include "regs.h"

#define HSI_HZ 16000000u
/* The PLL gets 1 MHz; its oscillator must run between 100 and 432 MHz and is divided by 2 or 4 (RM0410 5.3.2). */
#define PLL_INPUT_HZ 1000000u
#define PLL_DIVISOR (BOARD_CLOCK_HZ > 108000000u ? 2u : 4u)
#define PLL_FACTOR (BOARD_CLOCK_HZ * PLL_DIVISOR / PLL_INPUT_HZ)
/* For USB and the like, at most 48 MHz; for the display; unused. */
#define PLL_DIVISOR_48 ((PLL_FACTOR + 47u) / 48u)
#define PLL_DIVISOR_R 7u
#define USES_PLL (BOARD_CLOCK_HZ != BOARD_CRYSTAL_HZ)
/* RM0410 3.3.2, 2.7 to 3.6 V: one wait state more for each 30 MHz begun, seven at 216 MHz. */
#define WAIT_STATES(hz) ((hz) > 210000000u ? 7u : ((hz)-1u) / 30000000u)
/* Beyond 180 MHz the regulator needs over-drive (RM0410 4.1.4). */
#define OVER_DRIVE (BOARD_CLOCK_HZ > 180000000u)
/* RM0410 5.2: APB1 up to 54 MHz, APB2 up to 108 MHz. */
#define APB1_DIVISOR (BOARD_CLOCK_HZ > 108000000u ? 4u : BOARD_CLOCK_HZ > 54000000u ? 2u : 1u)
#define APB2_DIVISOR (BOARD_CLOCK_HZ > 108000000u ? 2u : 1u)

_Static_assert(BOARD_CRYSTAL_HZ % PLL_INPUT_HZ == 0 && BOARD_CLOCK_HZ % PLL_INPUT_HZ == 0 &&
                   BOARD_CLOCK_HZ <= 216000000u && (!USES_PLL || (PLL_FACTOR >= 100u && PLL_FACTOR <= 432u)),
               "CLOCK: no setting is known");

static int start_over_drive(void) {
    PWR_CR1 |= PWR_CR1_ODEN;
    if (!wait_for(&PWR_CSR1, PWR_CSR1_ODRDY, PWR_CSR1_ODRDY)) {
        return 0;
    }
    PWR_CR1 |= PWR_CR1_ODSWEN;
    return wait_for(&PWR_CSR1, PWR_CSR1_ODSWRDY, PWR_CSR1_ODSWRDY);
}

static int switch_to(uint32_t source) {
    RCC_CFGR = (RCC_CFGR & ~(RCC_CFGR_SW_MASK | RCC_CFGR_PPRE1_MASK | RCC_CFGR_PPRE2_MASK)) |
               RCC_CFGR_PPRE1(APB1_DIVISOR) | RCC_CFGR_PPRE2(APB2_DIVISOR);
    RCC_CFGR |= source;
    return wait_for(&RCC_CFGR, RCC_CFGR_SWS_MASK, source << 2);
}

/* The voltage scale takes effect with the PLL, over-drive after that (RM0410 4.1.4). */
static int start_pll(uint32_t source, uint32_t source_hz) {
    RCC_CR &= ~RCC_CR_PLLON;
    RCC_PLLCFGR = source | RCC_PLLCFGR_M(source_hz / PLL_INPUT_HZ) | RCC_PLLCFGR_N(PLL_FACTOR) |
                  RCC_PLLCFGR_P(PLL_DIVISOR) | RCC_PLLCFGR_Q(PLL_DIVISOR_48) | RCC_PLLCFGR_R(PLL_DIVISOR_R);
    RCC_CR |= RCC_CR_PLLON;
    return wait_for(&RCC_CR, RCC_CR_PLLRDY, RCC_CR_PLLRDY) && wait_for(&PWR_CSR1, PWR_CSR1_VOSRDY, PWR_CSR1_VOSRDY) &&
           (!OVER_DRIVE || start_over_drive()) && switch_to(RCC_CFGR_SW_PLL);
}

int clock_restart(void) {
    RCC_CR |= RCC_CR_HSEON;
    return wait_for(&RCC_CR, RCC_CR_HSERDY, RCC_CR_HSERDY) &&
           (USES_PLL ? start_pll(RCC_PLLCFGR_SRC_HSE, BOARD_CRYSTAL_HZ) : switch_to(RCC_CFGR_SW_HSE));
}

struct clock clock_start(void) {
    cache_start();
    RCC_APB1ENR |= RCC_APB1ENR_PWR;
    (void)RCC_APB1ENR;
    PWR_CR1 |= PWR_CR1_VOS_SCALE_1;
    FLASH_ACR = WAIT_STATES(BOARD_CLOCK_HZ);
    struct clock clock = {BOARD_CLOCK_HZ, BOARD_CLOCK_HZ / APB2_DIVISOR, "crystal"};
    if (wait_for(&FLASH_ACR, FLASH_ACR_LATENCY_MASK, WAIT_STATES(BOARD_CLOCK_HZ))) {
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
