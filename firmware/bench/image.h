/* What the linker script tells the program about itself. */
#ifndef IMAGE_H
#define IMAGE_H

#include <stdint.h>

extern uint32_t image_data_load[], image_data_start[], image_data_end[];
extern uint32_t image_bss_start[], image_bss_end[];
extern uint32_t image_stack_start[], image_stack_end[];
extern uint8_t image_heap_start[], image_heap_end[];

/* An ELF note: three words, the name "GNU" with its zero, then the identity. */
extern const uint8_t image_build_id_note[];
#define IMAGE_BUILD_ID (image_build_id_note + 16)

/* Text, a key=value on each line. */
extern const char image_manifest_start[], image_manifest_end[];

/* Sizes: the value is the symbol's address. */
extern const uint8_t image_flash_bytes[], image_text_bytes[], image_data_bytes[], image_bss_bytes[];
extern const uint8_t image_stack_bytes[], image_heap_bytes[];

#endif
