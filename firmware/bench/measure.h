/* The commands that lead to a series: kat, prepare, go. Each answers by itself. See PROTOCOL.md. */
#ifndef MEASURE_H
#define MEASURE_H

void measure_kat(char *arguments);
void measure_prepare(char *arguments);
void measure_go(void);

#endif
