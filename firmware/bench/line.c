#include "line.h"

#include <stddef.h>

#include "crc.h"
#include "hal.h"

static uint16_t crc_out = CRC16_START;

static int hex_value(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Takes the checksum off the end of a line and compares it. */
static enum line_result check(char *line, size_t n) {
    if (n < 5 || line[n - 5] != '*') {
        return LINE_BAD_CHECKSUM;
    }
    uint16_t want = 0, crc = CRC16_START;
    for (size_t i = n - 4; i < n; i++) {
        int digit = hex_value(line[i]);
        if (digit < 0) {
            return LINE_BAD_CHECKSUM;
        }
        want = (uint16_t)(want << 4 | digit);
    }
    for (size_t i = 0; i < n - 5; i++) {
        crc = crc16_add(crc, (uint8_t)line[i]);
    }
    line[n - 5] = '\0';
    return crc == want ? LINE_OK : LINE_BAD_CHECKSUM;
}

enum line_result line_read(char *payload) {
    size_t n = 0;
    int too_long = 0;
    for (;;) {
        char c = (char)hal_read();
        if (c == '\r') {
            continue;
        }
        if (c != '\n') {
            if (n < LINE_BYTES_MAX) {
                payload[n++] = c;
            } else {
                too_long = 1;
            }
        } else if (too_long) {
            return LINE_TOO_LONG;
        } else if (n > 0) {
            return check(payload, n);
        }
    }
}

void line_char(char c) {
    crc_out = crc16_add(crc_out, (uint8_t)c);
    hal_write((uint8_t)c);
}

void line_text(const char *text) {
    while (*text) {
        line_char(*text++);
    }
}

void line_number(uint32_t value) {
    char digits[10];
    int n = 0;
    do {
        digits[n++] = (char)('0' + value % 10u);
        value /= 10u;
    } while (value);
    while (n) {
        line_char(digits[--n]);
    }
}

void line_hex(uint32_t value, int digits) {
    while (digits--) {
        line_char("0123456789ABCDEF"[(value >> (4 * digits)) & 0xFu]);
    }
}

void line_pair(const char *key, uint32_t value) {
    line_char(' ');
    line_text(key);
    line_char('=');
    line_number(value);
}

void line_end(void) {
    uint16_t crc = crc_out;
    line_char('*');
    line_hex(crc, 4);
    line_char('\n');
    crc_out = CRC16_START;
}

void line_error(const char *code, const char *text) {
    line_text("err ");
    line_text(code);
    line_char(' ');
    line_text(text);
    line_end();
}
