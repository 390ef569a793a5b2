/* STM32VLDISCOVERY: 8 MHz crystal X2, free header pin PC6, USART1 on PA9/PA10 (ST UM0919). */
#ifndef BOARD_H
#define BOARD_H

#define BOARD_NAME "stm32vldiscovery"

/* 8 MHz x 3 = 24 MHz, the part's limit. */
#define BOARD_CRYSTAL_HZ 8000000u
#define BOARD_PLL_FACTOR 3u
/* Without crystal: 8 MHz internal / 2 x 6 = 24 MHz, a per cent or so off. */
#define BOARD_PLL_FACTOR_INTERNAL 6u

#define BOARD_TRIGGER_GPIO GPIOC_BASE
#define BOARD_TRIGGER_GPIO_ENABLE RCC_APB2ENR_IOPC
#define BOARD_TRIGGER_PIN 6u /* 0 to 7 */

#define BOARD_SERIAL_BAUD 115200u

#endif
