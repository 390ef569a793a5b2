/* The USART with a status register ISR and two data registers: STM32F0, STM32F7. The family's regs.h says where. */
#include "board.h"
#include "hal.h"
#include "parts.h"
#include "regs.h"

void serial_start(uint32_t clock_hz) {
    USART_BRR(BOARD_SERIAL) = (clock_hz + BOARD_SERIAL_BAUD / 2u) / BOARD_SERIAL_BAUD;
    /* An overrun would stop reception until it is cleared; a lost byte shows in the line's checksum anyway. */
    USART_CR3(BOARD_SERIAL) = USART_CR3_OVRDIS;
    USART_CR1(BOARD_SERIAL) = USART_CR1_UE | USART_CR1_TE | USART_CR1_RE;
}

uint8_t hal_read(void) {
    while (!(USART_ISR(BOARD_SERIAL) & USART_ISR_RXNE)) {
    }
    return (uint8_t)USART_RDR(BOARD_SERIAL);
}

void hal_write(uint8_t byte) {
    while (!(USART_ISR(BOARD_SERIAL) & USART_ISR_TXE)) {
    }
    USART_TDR(BOARD_SERIAL) = byte;
}

void hal_flush(void) {
    while (!(USART_ISR(BOARD_SERIAL) & USART_ISR_TC)) {
    }
}
