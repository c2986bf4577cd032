/* utf8.h: validates and repairs UTF-8 (Unicode 15, table 3-7) and escapes it for JSON
 * (RFC 8259). An ill-formed maximal subpart becomes one U+FFFD. */
#ifndef SALLYPORT_UTF8_H
#define SALLYPORT_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Length (1..4) of the well-formed character at p, or 0 with *bad set to the length of
 * the ill-formed maximal subpart (1..3). n > 0. */
size_t sp_utf8_next(const char *p, size_t n, size_t *bad);
bool sp_utf8_valid(const char *p, size_t n);
/* The longest prefix of p[0..n) that doesn't end inside a character that might go on:
 * n less 0..3. Used to cut a bounded capture at a whole character. */
size_t sp_utf8_whole(const char *p, size_t n);
/* Repairs in to out; cap must be >= 3 * n. Returns the bytes written. */
size_t sp_utf8_repair(const char *in, size_t n, char *out);
/* Bytes that sp_json_escape writes for all of in. */
size_t sp_json_escaped_len(const char *in, size_t n);
/* Repairs and escapes for a JSON string's inside ('"', '\\', < 0x20, 0x7f). Takes whole characters
 * while they fit in cap; *used tells how much of in was taken. Returns bytes written.
 * cap >= 6 always makes progress. */
size_t sp_json_escape(const char *in, size_t n, char *out, size_t cap, size_t *used);

#endif
