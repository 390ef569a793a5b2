/* The caches of the Cortex-M7. */
#ifndef CACHE_H
#define CACHE_H

void cache_start(void); /* both on, empty before */

#endif
