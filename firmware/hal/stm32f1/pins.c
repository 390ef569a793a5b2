/* Pins of the STM32F1: four bits each in CRL and CRH. */
#include "board.h"
#include "hal.h"
#include "parts.h"
#include "regs.h"

static void set_mode(uint32_t port, uint32_t pin, uint32_t mode) {
    volatile uint32_t *reg = pin < 8u ? &GPIO_CRL(port) : &GPIO_CRH(port);
    uint32_t shift = 4u * (pin % 8u);
    *reg = (*reg & ~(0xFu << shift)) | (mode << shift);
}

void pins_start(void) {
    RCC_APB2ENR |= BOARD_SERIAL_GPIO_ENABLE | BOARD_TRIGGER_GPIO_ENABLE | BOARD_SERIAL_CLOCK_ENABLE;
    hal_trigger_low();
    set_mode(BOARD_TRIGGER_GPIO, BOARD_TRIGGER_PIN, GPIO_OUTPUT_50MHZ);
    /* Receives with its pull-up, so that an absent adapter is an idle line. */
    GPIO_BSRR(BOARD_SERIAL_GPIO) = 1u << BOARD_SERIAL_RX_PIN;
    set_mode(BOARD_SERIAL_GPIO, BOARD_SERIAL_RX_PIN, GPIO_INPUT_PULL);
    set_mode(BOARD_SERIAL_GPIO, BOARD_SERIAL_TX_PIN, GPIO_ALTERNATE_50MHZ);
}
