/* Lines of ASCII with a checksum, both ways: payload, '*', four hexadecimal digits, newline. See PROTOCOL.md. */
#ifndef LINE_H
#define LINE_H

#include <stdint.h>

enum line_result { LINE_OK, LINE_BAD_CHECKSUM, LINE_TOO_LONG };

#define LINE_BYTES_MAX 160

enum line_result line_read(char *payload); /* room for LINE_BYTES_MAX + 1; blank lines are passed over */

/* An outgoing line is put together piece by piece and closed by line_end. */
void line_text(const char *text);
void line_char(char c);
void line_number(uint32_t value);
void line_hex(uint32_t value, int digits);
void line_pair(const char *key, uint32_t value); /* " key=value" */
void line_end(void);

void line_error(const char *code, const char *text); /* a whole line */

#endif
