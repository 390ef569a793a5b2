/* Registers of the STM32F405/407 that the bench touches. ST RM0090: memory map 2.3, flash 3, PWR 5, RCC 7, EXTI 12,
   RTC 26. */
#ifndef REGS_H
#define REGS_H

#include "stm32/gpio_moder.h"
#include "stm32/rtc_calendar.h"
#include "stm32/stop.h"
#include "stm32/usart_sr.h"

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
#define RCC_AHB1ENR_GPIOD (1u << 3)
#define RCC_APB1ENR REG(0x40023840u)
#define RCC_APB1ENR_USART2 (1u << 17)
#define RCC_APB1ENR_PWR (1u << 28)
#define RCC_APB1ENR_STOP RCC_APB1ENR_PWR

#define PWR_CR_VOS (1u << 14)
#define PWR_CSR REG(0x40007004u)
#define PWR_CSR_VOSRDY (1u << 14)

#define RCC_BDCR REG(0x40023870u)
#define RCC_CSR REG(0x40023874u)

#define EXTI 0x40013C00u
#define EXTI_RTC (1u << 22) /* the wake-up timer */
#define RTC_IRQ 3u

#define FLASH_ACR REG(0x40023C00u)
#define FLASH_ACR_LATENCY_MASK 7u
#define FLASH_ACR_PRFTEN (1u << 8)
#define FLASH_ACR_ICEN (1u << 9)
#define FLASH_ACR_DCEN (1u << 10)
#define FLASH_ACR_ICRST (1u << 11)
#define FLASH_ACR_DCRST (1u << 12)

#define DBGMCU_IDCODE REG(0xE0042000u)
#define DBGMCU_REVISION_A 0x1000u

#define GPIOA 0x40020000u
#define GPIOD 0x40020C00u
#define PIN_HIGH(base, pin) (GPIO_BSRR(base) = 1u << (pin))
#define PIN_LOW(base, pin) (GPIO_BSRR(base) = 1u << ((pin) + 16u))

#define USART2 0x40004400u

#endif
