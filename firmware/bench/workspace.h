/* Memory of a prepared operation: its state (contexts, key schedules) and its message buffers. It comes from the heap,
 * or with WORKSPACE=static from an arena in .bss, and goes back all at once before the next preparation or self-test. */
#ifndef WORKSPACE_H
#define WORKSPACE_H

#include <stddef.h>
#include <stdint.h>

void workspace_reset(void);
void *workspace_state(size_t n);                           /* zeroed, on 8 bytes; NULL where there is no room */
uint8_t *workspace_buffer(uint32_t n, uint32_t offset);    /* `offset` bytes past a multiple of 16; NULL likewise */
uint32_t workspace_state_bytes(void);                      /* handed out since the reset */
uint32_t workspace_buffer_bytes(void);
uint32_t workspace_heap_bytes(void); /* what the heap gave for them, headers included; 0 with an arena */
uint32_t workspace_missing_bytes(void); /* by how much the arena is too small for what was asked; 0 where it was not */

#endif
