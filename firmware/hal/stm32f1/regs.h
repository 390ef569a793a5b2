/* Registers of the STM32F100 that the bench touches. ST RM0041: memory map 2.3, PWR 4, RCC 6, GPIO 7, EXTI 8,
   RTC 15; PM0063 (flash). */
#ifndef REGS_H
#define REGS_H

#include "stm32/stop.h"
#include "stm32/usart_sr.h"

#define RCC_CR REG(0x40021000u)
#define RCC_CR_HSEON (1u << 16)
#define RCC_CR_HSERDY (1u << 17)
#define RCC_CR_PLLON (1u << 24)
#define RCC_CR_PLLRDY (1u << 25)
#define RCC_CFGR REG(0x40021004u)
#define RCC_CFGR_SW_HSE 1u
#define RCC_CFGR_SW_PLL 2u
#define RCC_CFGR_SWS_MASK (3u << 2)
#define RCC_CFGR_PLLSRC_CRYSTAL (1u << 16)
#define RCC_CFGR_PLLMUL(factor) (((factor) - 2u) << 18)
#define RCC_APB2ENR REG(0x40021018u)
#define RCC_APB2ENR_IOPA (1u << 2)
#define RCC_APB2ENR_IOPC (1u << 4)
#define RCC_APB2ENR_USART1 (1u << 14)

#define RCC_APB1ENR REG(0x4002101Cu)
#define RCC_APB1ENR_STOP ((1u << 28) | (1u << 27)) /* PWREN, BKPEN */
#define RCC_BDCR REG(0x40021020u)
#define RCC_CSR REG(0x40021024u)

#define EXTI 0x40010400u
#define EXTI_RTC (1u << 17)
#define RTC_IRQ 41u

#define RTC_CRH REG(0x40002800u)
#define RTC_CRH_ALRIE (1u << 1)
#define RTC_CRL REG(0x40002804u)
#define RTC_CRL_ALRF (1u << 1)
#define RTC_CRL_RSF (1u << 3)
#define RTC_CRL_CNF (1u << 4)
#define RTC_CRL_RTOFF (1u << 5)
#define RTC_PRLH REG(0x40002808u)
#define RTC_PRLL REG(0x4000280Cu)
#define RTC_CNTH REG(0x40002818u)
#define RTC_CNTL REG(0x4000281Cu)
#define RTC_ALRH REG(0x40002820u)
#define RTC_ALRL REG(0x40002824u)
#define RTC_TICKS_MASK 0xFFFFFFFFu

#define FLASH_ACR REG(0x40022000u)
#define FLASH_ACR_HLFCYA (1u << 3)

#define GPIOA 0x40010800u
#define GPIOC 0x40011000u
#define GPIO_CRL(base) REG((base) + 0x00u)
#define GPIO_CRH(base) REG((base) + 0x04u)
#define GPIO_BSRR(base) REG((base) + 0x10u)
#define GPIO_BRR(base) REG((base) + 0x14u)
#define GPIO_OUTPUT_50MHZ 0x3u
#define GPIO_INPUT_PULL 0x8u
#define GPIO_ALTERNATE_50MHZ 0xBu
#define PIN_HIGH(base, pin) (GPIO_BSRR(base) = 1u << (pin))
#define PIN_LOW(base, pin) (GPIO_BRR(base) = 1u << (pin))

#define USART1 0x40013800u

#endif
