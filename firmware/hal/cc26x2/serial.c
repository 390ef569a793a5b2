/* UART0, a PL011 (SWCU185, UART). */
#include "board.h"
#include "hal.h"
#include "parts.h"
#include "regs.h"

void serial_start(uint32_t clock_hz) {
    /* The divisor is clock / (16 baud), in 64ths. */
    uint32_t divisor = (clock_hz * 4u + BOARD_SERIAL_BAUD / 2u) / BOARD_SERIAL_BAUD;
    UART0_CTL = 0;
    UART0_IBRD = divisor / 64u;
    UART0_FBRD = divisor % 64u;
    UART0_LCRH = UART_LCRH_8_BITS | UART_LCRH_FEN; /* takes the divisor over */
    UART0_CTL = UART_CTL_UARTEN | UART_CTL_TXE | UART_CTL_RXE;
}

uint8_t hal_read(void) {
    while (UART0_FR & UART_FR_RXFE) {
    }
    return (uint8_t)UART0_DR;
}

void hal_write(uint8_t byte) {
    while (UART0_FR & UART_FR_TXFF) {
    }
    UART0_DR = byte;
}

void hal_flush(void) {
    while (UART0_FR & UART_FR_BUSY) {
    }
}
