/* A small heap of fixed size: first fit, neighbours joined, high-water mark. Never grows, never fails silently. */
#ifndef HEAP_H
#define HEAP_H

#include <stddef.h>
#include <stdint.h>

void *heap_calloc(size_t count, size_t size); /* zeroed; NULL where there is no room */
void heap_free(void *block);
void heap_reset(void);           /* everything free, mark and refusals cleared */
uint32_t heap_in_use_bytes(void); /* headers included */
void heap_mark(void);            /* what is in use now counts as the floor of the peak from here on */
uint32_t heap_peak_bytes(void);  /* most in use since the mark, above the floor, headers included */
uint32_t heap_missing_bytes(void); /* by how much the last request that was turned down was too large; 0: none was */

#endif
