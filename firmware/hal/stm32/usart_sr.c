/* The USART with a status register SR and one data register DR: STM32F1, STM32F4. The family's regs.h says where. */
#include "board.h"
#include "hal.h"
#include "parts.h"
#include "regs.h"

void serial_start(uint32_t clock_hz) {
    USART_BRR(BOARD_SERIAL) = (clock_hz + BOARD_SERIAL_BAUD / 2u) / BOARD_SERIAL_BAUD;
    USART_CR1(BOARD_SERIAL) = USART_CR1_UE | USART_CR1_TE | USART_CR1_RE;
}

uint8_t hal_read(void) {
    while (!(USART_SR(BOARD_SERIAL) & USART_SR_RXNE)) {
    }
    return (uint8_t)USART_DR(BOARD_SERIAL);
}

void hal_write(uint8_t byte) {
    while (!(USART_SR(BOARD_SERIAL) & USART_SR_TXE)) {
    }
    USART_DR(BOARD_SERIAL) = byte;
}

void hal_flush(void) {
    while (!(USART_SR(BOARD_SERIAL) & USART_SR_TC)) {
    }
}
