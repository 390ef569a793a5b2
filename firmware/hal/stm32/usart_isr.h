/* RM0091 27, RM0410 34, "USART registers". */
#ifndef USART_ISR_H
#define USART_ISR_H

#include "core.h"

#define USART_CR1(base) REG((base) + 0x00u)
#define USART_CR1_UE (1u << 0)
#define USART_CR1_RE (1u << 2)
#define USART_CR1_TE (1u << 3)
#define USART_CR3(base) REG((base) + 0x08u)
#define USART_CR3_OVRDIS (1u << 12)
#define USART_BRR(base) REG((base) + 0x0Cu)
#define USART_ISR(base) REG((base) + 0x1Cu)
#define USART_ISR_RXNE (1u << 5)
#define USART_ISR_TC (1u << 6)
#define USART_ISR_TXE (1u << 7)
#define USART_RDR(base) REG((base) + 0x24u)
#define USART_TDR(base) REG((base) + 0x28u)

#endif
