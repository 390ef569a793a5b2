/* High-water mark of the stack: painted, then searched for the first word that was written. */
#ifndef STACK_H
#define STACK_H

#include <stdint.h>

void stack_paint(void);
uint32_t stack_peak_bytes(void);

#endif
