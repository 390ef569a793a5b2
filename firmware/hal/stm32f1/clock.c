/* Clock of the STM32F100 value line: the 8 MHz crystal, alone or through the PLL. */
#include "board.h"
#include "parts.h"
#include "regs.h"

#define HSI_HZ 8000000u
#define USES_PLL (BOARD_CLOCK_HZ != BOARD_CRYSTAL_HZ)

_Static_assert(BOARD_CLOCK_HZ % BOARD_CRYSTAL_HZ == 0 && BOARD_CLOCK_HZ <= 24000000u, "CLOCK: no setting is known");
_Static_assert(!USES_PLL || BOARD_CLOCK_HZ % (HSI_HZ / 2u) == 0, "CLOCK: unreachable without the crystal");

/* Switches the core over. All bus prescalers are 1: AHB, APB1 and APB2 may run at 24 MHz (RM0041 6.2). */
static int switch_to(uint32_t source) {
    RCC_CFGR |= source;
    return wait_for(&RCC_CFGR, RCC_CFGR_SWS_MASK, source << 2);
}

static int start_pll(uint32_t source_and_factor) {
    RCC_CR &= ~RCC_CR_PLLON;
    RCC_CFGR = source_and_factor;
    RCC_CR |= RCC_CR_PLLON;
    return wait_for(&RCC_CR, RCC_CR_PLLRDY, RCC_CR_PLLRDY) && switch_to(RCC_CFGR_SW_PLL);
}

int clock_restart(void) {
    RCC_CR |= RCC_CR_HSEON;
    return wait_for(&RCC_CR, RCC_CR_HSERDY, RCC_CR_HSERDY) &&
           (USES_PLL ? start_pll(RCC_CFGR_PLLSRC_CRYSTAL | RCC_CFGR_PLLMUL(BOARD_CLOCK_HZ / BOARD_CRYSTAL_HZ))
                     : switch_to(RCC_CFGR_SW_HSE));
}

struct clock clock_start(void) {
    /* The value line has no wait states up to 24 MHz; half-cycle access is for slow clocks without PLL only. */
    FLASH_ACR &= ~FLASH_ACR_HLFCYA;
    if (clock_restart()) {
        return (struct clock){BOARD_CLOCK_HZ, BOARD_CLOCK_HZ, "crystal"};
    }
    RCC_CR &= ~RCC_CR_HSEON;
    if (USES_PLL && start_pll(RCC_CFGR_PLLMUL(BOARD_CLOCK_HZ / (HSI_HZ / 2u)))) {
        return (struct clock){BOARD_CLOCK_HZ, BOARD_CLOCK_HZ, "internal"};
    }
    return (struct clock){HSI_HZ, HSI_HZ, "internal"};
}
