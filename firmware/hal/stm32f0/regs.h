/* Registers of the STM32F0x1 that the bench touches. ST RM0091: memory map 2.2, flash 3, PWR 5, RCC 6, EXTI 11,
   TIM2 18, RTC 25. */
#ifndef REGS_H
#define REGS_H

#include "stm32/gpio_moder.h"
#include "stm32/rtc_calendar.h"
#include "stm32/stop.h"
#include "stm32/usart_isr.h"

#define RCC_CR REG(0x40021000u)
#define RCC_CR_HSEON (1u << 16)
#define RCC_CR_HSERDY (1u << 17)
#define RCC_CR_HSEBYP (1u << 18)
#define RCC_CR_PLLON (1u << 24)
#define RCC_CR_PLLRDY (1u << 25)
#define RCC_CFGR REG(0x40021004u)
#define RCC_CFGR_SW_HSE 1u
#define RCC_CFGR_SW_PLL 2u
#define RCC_CFGR_SWS_MASK (3u << 2)
#define RCC_CFGR_PLLSRC_CRYSTAL (1u << 16)
#define RCC_CFGR_PLLMUL(factor) (((factor) - 2u) << 18)
#define RCC_GPIO_ENABLE REG(0x40021014u)
#define RCC_AHBENR_IOPA (1u << 17)
#define RCC_AHBENR_IOPC (1u << 19)
#define RCC_APB2ENR REG(0x40021018u)
#define RCC_APB2ENR_USART1 (1u << 14)
#define RCC_APB1ENR REG(0x4002101Cu)
#define RCC_APB1ENR_TIM2 (1u << 0)
#define RCC_APB1ENR_STOP (1u << 28) /* PWREN */
#define RCC_BDCR REG(0x40021020u)
#define RCC_CSR REG(0x40021024u)

#define EXTI 0x40010400u
#define EXTI_RTC (1u << 17) /* the alarm */
#define RTC_IRQ 2u

#define FLASH_ACR REG(0x40022000u)
#define FLASH_ACR_LATENCY_MASK 7u
#define FLASH_ACR_PRFTBE (1u << 4)

#define GPIOA 0x48000000u
#define GPIOC 0x48000800u
#define GPIO_BRR(base) REG((base) + 0x28u)
#define PIN_HIGH(base, pin) (GPIO_BSRR(base) = 1u << (pin))
#define PIN_LOW(base, pin) (GPIO_BRR(base) = 1u << (pin))

#define USART1 0x40013800u

#define TIM2_CR1 REG(0x40000000u)
#define TIM_CR1_CEN (1u << 0)
#define TIM2_EGR REG(0x40000014u)
#define TIM_EGR_UG (1u << 0)
#define TIM2_CNT REG(0x40000024u)
#define TIM2_PSC REG(0x40000028u)
#define TIM2_ARR REG(0x4000002Cu)

#endif
