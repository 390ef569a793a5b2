/* The command loop: what PROTOCOL.md says. */
#include <string.h>

#include "board.h"
#include "hal.h"
#include "heap.h"
#include "image.h"
#include "line.h"
#include "measure.h"
#include "operation.h"
#include "series.h"
#include "workspace.h"

#define PROTOCOL_VERSION 2u
/* Of names and commas in a line of the list: with the rest below 160. */
#define NAMES_A_LINE 130u

static void build_id(void) {
    line_text(" build=");
    for (int i = 0; i < 8; i++) {
        line_hex(IMAGE_BUILD_ID[i], 2);
    }
}

static void boot(void) {
    line_text("ok boot board=" BOARD_NAME);
    build_id();
    line_end();
}

static void hello(void) {
    line_text("ok hello");
    line_pair("proto", PROTOCOL_VERSION);
    line_text(" board=" BOARD_NAME);
    line_pair("clock_hz", hal_clock_hz());
    line_text(" clock=");
    line_text(hal_clock_source());
    line_text(" counter=");
    line_text(hal_counter());
    build_id();
    line_end();
}

static void list(void) {
    size_t i = 0;
    while (i < n_operations) {
        line_text("data ops ");
        size_t n = 0;
        do {
            if (n > 0) {
                line_char(',');
            }
            line_text(operations[i]->name);
            n += strlen(operations[i]->name) + 1u;
            i++;
        } while (i < n_operations && n + strlen(operations[i]->name) < NAMES_A_LINE);
        line_end();
    }
    line_text("ok list");
    line_pair("n", n_operations);
    line_end();
}

static void stack(void) {
    struct series_memory memory = series_memory();
    line_text("ok stack");
    line_pair("stack_peak_bytes", memory.stack_peak_bytes);
    line_pair("heap_peak_bytes", memory.heap_peak_bytes);
    line_pair("heap_held_bytes", memory.heap_held_bytes);
    line_pair("state_bytes", workspace_state_bytes());
    line_pair("buffer_bytes", workspace_buffer_bytes());
    line_end();
}

static uint32_t manifest_size(const char *key, const uint8_t *value) {
    line_text("data manifest ");
    line_text(key);
    line_char('=');
    line_number((uint32_t)value);
    line_end();
    return 1;
}

static void manifest(void) {
    uint32_t n = 0;
    for (const char *c = image_manifest_start; c < image_manifest_end; c++) {
        line_text("data manifest ");
        for (; c < image_manifest_end && *c != '\n'; c++) {
            line_char(*c);
        }
        line_end();
        n++;
    }
    n += manifest_size("flash_bytes", image_flash_bytes);
    n += manifest_size("text_bytes", image_text_bytes);
    n += manifest_size("data_bytes", image_data_bytes);
    n += manifest_size("bss_bytes", image_bss_bytes);
    n += manifest_size("stack_bytes", image_stack_bytes);
    n += manifest_size("heap_bytes", image_heap_bytes);
    line_text("ok manifest");
    line_pair("keys", n);
    line_end();
}

static void obey(char *line) {
    char *arguments = strchr(line, ' ');
    if (arguments != NULL) {
        *arguments++ = '\0';
    } else {
        arguments = line + strlen(line);
    }
    if (strcmp(line, "prepare") == 0) {
        measure_prepare(arguments);
    } else if (strcmp(line, "kat") == 0) {
        measure_kat(arguments);
    } else if (*arguments != '\0') {
        line_error("command", line);
    } else if (strcmp(line, "hello") == 0) {
        hello();
    } else if (strcmp(line, "list") == 0) {
        list();
    } else if (strcmp(line, "go") == 0) {
        measure_go();
    } else if (strcmp(line, "stack") == 0) {
        stack();
    } else if (strcmp(line, "manifest") == 0) {
        manifest();
    } else {
        line_error("command", line);
    }
}

int main(void) {
    static char line[LINE_BYTES_MAX + 1];
    hal_setup();
    heap_reset();
    boot();
    for (;;) {
        enum line_result result = line_read(line);
        if (result == LINE_OK) {
            obey(line);
        } else {
            line_error(result == LINE_TOO_LONG ? "length" : "checksum", "line not understood: send it again");
        }
    }
}
