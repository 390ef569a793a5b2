/* Pins of the families whose ports have MODER and AFR: STM32F0, STM32F4, STM32F7. */
#include "board.h"
#include "hal.h"
#include "parts.h"
#include "regs.h"

/* Writes a field of `bits` bits for one pin. */
static void set_field(volatile uint32_t *reg, uint32_t position, uint32_t bits, uint32_t value) {
    uint32_t mask = ((1u << bits) - 1u) << position;
    *reg = (*reg & ~mask) | (value << position);
}

static void connect(uint32_t port, uint32_t pin) {
    set_field(&GPIO_AFR(port, pin), 4u * (pin % 8u), 4, BOARD_SERIAL_FUNCTION);
    set_field(&GPIO_MODER(port), 2u * pin, 2, GPIO_MODE_ALTERNATE);
}

void pins_start(void) {
    RCC_GPIO_ENABLE |= BOARD_TRIGGER_GPIO_ENABLE | BOARD_SERIAL_GPIO_ENABLE;
    BOARD_SERIAL_CLOCK_REGISTER |= BOARD_SERIAL_CLOCK_ENABLE;
    /* A clock just enabled takes two cycles to reach its peripheral (errata sheet of the STM32F405/407): read back. */
    (void)BOARD_SERIAL_CLOCK_REGISTER;
    (void)RCC_GPIO_ENABLE;
    hal_trigger_low();
    set_field(&GPIO_OSPEEDR(BOARD_TRIGGER_GPIO), 2u * BOARD_TRIGGER_PIN, 2, GPIO_SPEED_HIGH);
    set_field(&GPIO_MODER(BOARD_TRIGGER_GPIO), 2u * BOARD_TRIGGER_PIN, 2, GPIO_MODE_OUTPUT);
    connect(BOARD_SERIAL_GPIO, BOARD_SERIAL_TX_PIN);
    /* Receives with its pull-up, so that an absent adapter is an idle line. */
    set_field(&GPIO_PUPDR(BOARD_SERIAL_GPIO), 2u * BOARD_SERIAL_RX_PIN, 2, GPIO_PULL_UP);
    connect(BOARD_SERIAL_GPIO, BOARD_SERIAL_RX_PIN);
}
