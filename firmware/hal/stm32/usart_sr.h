/* RM0041 23, RM0090 30, "USART registers". */
#ifndef USART_SR_H
#define USART_SR_H

#include "core.h"

#define USART_SR(base) REG((base) + 0x00u)
#define USART_SR_RXNE (1u << 5)
#define USART_SR_TC (1u << 6)
#define USART_SR_TXE (1u << 7)
#define USART_DR(base) REG((base) + 0x04u)
#define USART_BRR(base) REG((base) + 0x08u)
#define USART_CR1(base) REG((base) + 0x0Cu)
#define USART_CR1_RE (1u << 2)
#define USART_CR1_TE (1u << 3)
#define USART_CR1_UE (1u << 13)

#endif
