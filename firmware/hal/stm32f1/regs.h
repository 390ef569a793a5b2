/* Registers of the STM32F100 that the bench touches. ST RM0041: memory map 2.3, RCC 6, GPIO 7, USART 23, and
   PM0063 (flash); core registers: ARM DDI 0403 (ARMv7-M), B3 and C1. */
#ifndef REGS_H
#define REGS_H

#include <stdint.h>

#define REG(address) (*(volatile uint32_t *)(address))

#define RCC_CR REG(0x40021000u)
#define RCC_CR_HSION (1u << 0)
#define RCC_CR_HSIRDY (1u << 1)
#define RCC_CR_HSEON (1u << 16)
#define RCC_CR_HSERDY (1u << 17)
#define RCC_CR_PLLON (1u << 24)
#define RCC_CR_PLLRDY (1u << 25)
#define RCC_CFGR REG(0x40021004u)
#define RCC_CFGR_SW_PLL 2u
#define RCC_CFGR_SWS_MASK (3u << 2)
#define RCC_CFGR_SWS_PLL (2u << 2)
#define RCC_CFGR_PLLSRC_CRYSTAL (1u << 16)
#define RCC_CFGR_PLLMUL(factor) (((factor) - 2u) << 18)
#define RCC_APB2ENR REG(0x40021018u)
#define RCC_APB2ENR_IOPA (1u << 2)
#define RCC_APB2ENR_IOPC (1u << 4)
#define RCC_APB2ENR_USART1 (1u << 14)

#define FLASH_ACR REG(0x40022000u)
#define FLASH_ACR_HLFCYA (1u << 3)

#define GPIOA_BASE 0x40010800u
#define GPIOC_BASE 0x40011000u
#define GPIO_CRL(base) REG((base) + 0x00u)
#define GPIO_CRH(base) REG((base) + 0x04u)
#define GPIO_BSRR(base) REG((base) + 0x10u)
#define GPIO_BRR(base) REG((base) + 0x14u)
#define GPIO_OUTPUT_50MHZ 0x3u
#define GPIO_INPUT_PULL 0x8u
#define GPIO_ALTERNATE_50MHZ 0xBu

#define USART1_SR REG(0x40013800u)
#define USART_SR_RXNE (1u << 5)
#define USART_SR_TC (1u << 6)
#define USART_SR_TXE (1u << 7)
#define USART1_DR REG(0x40013804u)
#define USART1_BRR REG(0x40013808u)
#define USART1_CR1 REG(0x4001380Cu)
#define USART_CR1_RE (1u << 2)
#define USART_CR1_TE (1u << 3)
#define USART_CR1_UE (1u << 13)

#define SYST_CSR REG(0xE000E010u)
#define SYST_CSR_ENABLE (1u << 0)
#define SYST_CSR_TICKINT (1u << 1)
#define SYST_CSR_CLKSOURCE (1u << 2)
#define SYST_CSR_COUNTFLAG (1u << 16)
#define SYST_RVR REG(0xE000E014u)
#define SYST_CVR REG(0xE000E018u)
#define SYST_SPAN (1u << 24)
#define SCB_ICSR REG(0xE000ED04u)
#define SCB_ICSR_PENDSTCLR (1u << 25)
#define SCB_DEMCR REG(0xE000EDFCu)
#define SCB_DEMCR_TRCENA (1u << 24)
#define DWT_CTRL REG(0xE0001000u)
#define DWT_CTRL_CYCCNTENA (1u << 0)
#define DWT_CYCCNT REG(0xE0001004u)

#endif
