#include "heap.h"

#include <string.h>

#include "image.h"

/* Blocks lie one behind the other. Sizes are multiples of 8 with the header in; bit 0 says "in use". */
struct header {
    uint32_t size;
    uint32_t guard; /* keeps payloads on 8 bytes, and tells a wild free */
};
#define IN_USE 1u
#define GUARD 0x48454150u

static uint32_t in_use_bytes, peak_bytes, floor_bytes;
static uint32_t missing_bytes;

static struct header *first(void) {
    return (struct header *)image_heap_start;
}

static struct header *next(struct header *h) {
    return (struct header *)((uint8_t *)h + (h->size & ~IN_USE));
}

static int is_end(const struct header *h) {
    return (const uint8_t *)h >= image_heap_end;
}

void heap_reset(void) {
    first()->size = (uint32_t)(image_heap_end - image_heap_start) & ~7u;
    first()->guard = GUARD;
    in_use_bytes = 0;
    missing_bytes = 0;
    heap_mark();
}

void heap_mark(void) {
    floor_bytes = peak_bytes = in_use_bytes;
}

uint32_t heap_in_use_bytes(void) {
    return in_use_bytes;
}

uint32_t heap_peak_bytes(void) {
    return peak_bytes - floor_bytes;
}

uint32_t heap_missing_bytes(void) {
    return missing_bytes;
}

static void join(struct header *h) {
    while (!is_end(next(h)) && !(next(h)->size & IN_USE)) {
        h->size += next(h)->size;
    }
}

void *heap_calloc(size_t count, size_t size) {
    if (size != 0 && count > (SIZE_MAX / 2) / size) {
        missing_bytes = UINT32_MAX;
        return NULL;
    }
    uint32_t largest = 0;
    uint32_t want = (uint32_t)((count * size + sizeof(struct header) + 7u) & ~(size_t)7u);
    for (struct header *h = first(); !is_end(h); h = next(h)) {
        if (h->size & IN_USE) {
            continue;
        }
        join(h);
        if (h->size < want) {
            largest = h->size > largest ? h->size : largest;
            continue;
        }
        if (h->size - want >= 2 * sizeof(struct header)) {
            struct header *rest = (struct header *)((uint8_t *)h + want);
            rest->size = h->size - want;
            rest->guard = GUARD;
            h->size = want;
        }
        in_use_bytes += h->size;
        if (in_use_bytes > peak_bytes) {
            peak_bytes = in_use_bytes;
        }
        h->size |= IN_USE;
        return memset(h + 1, 0, count * size);
    }
    missing_bytes = want - largest;
    return NULL;
}

void heap_free(void *block) {
    if (block == NULL) {
        return;
    }
    struct header *h = (struct header *)block - 1;
    if (h->guard != GUARD || !(h->size & IN_USE)) {
        __builtin_trap();
    }
    h->size &= ~IN_USE;
    in_use_bytes -= h->size;
}
