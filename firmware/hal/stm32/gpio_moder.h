/* Ports with MODER and AFR: RM0091 9, RM0090 8, RM0410 6, "GPIO registers". */
#ifndef GPIO_MODER_H
#define GPIO_MODER_H

#include "core.h"

#define GPIO_MODER(base) REG((base) + 0x00u)
#define GPIO_OSPEEDR(base) REG((base) + 0x08u)
#define GPIO_PUPDR(base) REG((base) + 0x0Cu)
#define GPIO_BSRR(base) REG((base) + 0x18u)
#define GPIO_AFR(base, pin) REG((base) + 0x20u + 4u * ((pin) / 8u))
#define GPIO_MODE_OUTPUT 1u
#define GPIO_MODE_ALTERNATE 2u
#define GPIO_PULL_UP 1u
#define GPIO_SPEED_HIGH 3u

#endif
