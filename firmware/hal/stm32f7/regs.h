/* Registers of the STM32F76x/77x that the bench touches. ST RM0410: memory map 2.2, flash 3, PWR 4, RCC 5, EXTI 11,
   RTC 29; caches: ARM DDI 0403 (ARMv7-M), B3.2 and B4.8. */
#ifndef REGS_H
#define REGS_H

#include "stm32/gpio_moder.h"
#include "stm32/rtc_calendar.h"
#include "stm32/stop.h"
#include "stm32/usart_isr.h"

#define RCC_CR REG(0x40023800u)
#define RCC_CR_HSEON (1u << 16)
#define RCC_CR_HSERDY (1u << 17)
#define RCC_CR_PLLON (1u << 24)
#define RCC_CR_PLLRDY (1u << 25)
#define RCC_PLLCFGR REG(0x40023804u)
#define RCC_PLLCFGR_M(m) (m)
#define RCC_PLLCFGR_N(n) ((n) << 6)
#define RCC_PLLCFGR_P(p) (((p) / 2u - 1u) << 16)
#define RCC_PLLCFGR_SRC_HSE (1u << 22)
#define RCC_PLLCFGR_Q(q) ((q) << 24)
#define RCC_PLLCFGR_R(r) ((r) << 28)
#define RCC_CFGR REG(0x40023808u)
#define RCC_CFGR_SW_MASK 3u
#define RCC_CFGR_SW_HSE 1u
#define RCC_CFGR_SW_PLL 2u
#define RCC_CFGR_SWS_MASK (3u << 2)
#define RCC_CFGR_PPRE1_MASK (7u << 10)
#define RCC_CFGR_PPRE1(divisor) ((divisor) == 1u ? 0u : (divisor) == 2u ? 4u << 10 : 5u << 10) /* 1, 2, 4 */
#define RCC_CFGR_PPRE2_MASK (7u << 13)
#define RCC_CFGR_PPRE2(divisor) ((divisor) == 1u ? 0u : (divisor) == 2u ? 4u << 13 : 5u << 13)
#define RCC_GPIO_ENABLE REG(0x40023830u)
#define RCC_AHB1ENR_GPIOA (1u << 0)
#define RCC_AHB1ENR_GPIOJ (1u << 9)
#define RCC_APB1ENR REG(0x40023840u)
#define RCC_APB1ENR_PWR (1u << 28)
#define RCC_APB1ENR_STOP (RCC_APB1ENR_PWR | (1u << 10)) /* and RTCAPBEN, set after a reset */
#define RCC_APB2ENR REG(0x40023844u)
#define RCC_APB2ENR_USART1 (1u << 4)

#define PWR_CR1 REG(0x40007000u)
#define PWR_CR1_VOS_SCALE_1 (3u << 14)
#define PWR_CR1_ODEN (1u << 16)
#define PWR_CR1_ODSWEN (1u << 17)
#define PWR_CSR1 REG(0x40007004u)
#define PWR_CSR1_VOSRDY (1u << 14)
#define PWR_CSR1_ODRDY (1u << 16)
#define PWR_CSR1_ODSWRDY (1u << 17)

#define RCC_BDCR REG(0x40023870u)
#define RCC_CSR REG(0x40023874u)

#define EXTI 0x40013C00u
#define EXTI_RTC (1u << 22) /* the wake-up timer */
#define RTC_IRQ 3u

#define FLASH_ACR REG(0x40023C00u)
#define FLASH_ACR_LATENCY_MASK 0xFu

#define SCB_CCR REG(0xE000ED14u)
#define SCB_CCR_DC (1u << 16)
#define SCB_CCR_IC (1u << 17)
#define SCB_CCSIDR REG(0xE000ED80u)
#define SCB_CSSELR REG(0xE000ED84u)
#define SCB_ICIALLU REG(0xE000EF50u)
#define SCB_DCISW REG(0xE000EF60u)

#define GPIOA 0x40020000u
#define GPIOJ 0x40022400u
/* The core's write buffer is emptied before the function returns: the pin has changed by then (ARM DDI 0489). */
#define PIN_WRITE(base, bits)                                                                                          \
    do {                                                                                                               \
        GPIO_BSRR(base) = (bits);                                                                                      \
        __asm volatile("dsb" ::: "memory");                                                                            \
    } while (0)
#define PIN_HIGH(base, pin) PIN_WRITE(base, 1u << (pin))
#define PIN_LOW(base, pin) PIN_WRITE(base, 1u << ((pin) + 16u))

#define USART1 0x40011000u

#endif
