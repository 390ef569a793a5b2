/* The warm-up is timed by TIM2, 32 bits at 1 MHz, since the Cortex-M0 counts no cycles and the SysTick is the sleep's.
   The timer's clock is on only meanwhile, so that no window holds its current. */
#include "hal.h"
#include "regs.h"

void hal_stopwatch_start(void) {
    RCC_APB1ENR |= RCC_APB1ENR_TIM2;
    (void)RCC_APB1ENR;
    TIM2_CR1 = 0;
    TIM2_PSC = hal_clock_hz() / 1000000u - 1u;
    TIM2_ARR = 0xFFFFFFFFu;
    TIM2_EGR = TIM_EGR_UG; /* takes the prescaler over and clears the count (RM0091 18.4.6) */
    TIM2_CR1 = TIM_CR1_CEN;
}

uint32_t hal_stopwatch_us(void) {
    uint32_t us = TIM2_CNT;
    TIM2_CR1 = 0;
    RCC_APB1ENR &= ~RCC_APB1ENR_TIM2;
    return us + 1u; /* the microsecond begun */
}
