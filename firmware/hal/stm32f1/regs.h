/* Registers of the STM32F100 that the bench touches. ST RM0041: memory map 2.3, RCC 6, GPIO 7; PM0063 (flash). */
#ifndef REGS_H
#define REGS_H

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
