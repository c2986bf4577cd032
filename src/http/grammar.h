/* grammar.h: the character classes and small rules that the HTTP parsers share (RFC 9110 5.6,
 * RFC 3986). Private to src/http. All input is a stranger's. */
#ifndef SP_HTTP_GRAMMAR_H
#define SP_HTTP_GRAMMAR_H

#include "sallyport/wire.h"

#include <stdbool.h>
#include <stdint.h>

bool sp_is_tchar(char c);
/* pchar of RFC 3986 without '%'. */
bool sp_is_pchar(char c);
/* The value of a hex digit, or -1. */
int sp_hex_value(char c);
/* The byte that "%XX" at in.p[i] stands for; false where two hex digits don't follow. */
bool sp_pct_byte(struct sp_slice in, size_t i, char *out);
/* HTAB, SP, VCHAR or obs-text: what a field value is made of. */
bool sp_is_value_char(char c);

bool sp_is_token(struct sp_slice s);
/* The whole of s is lit, where case doesn't count. */
bool sp_slice_is(struct sp_slice s, const char *lit);
/* Without SP and HTAB at both ends; p is never NULL if it wasn't. */
struct sp_slice sp_trim(struct sp_slice s);
/* 1*DIGIT, at most INT64_MAX. */
bool sp_parse_length(struct sp_slice s, uint64_t *out);
/* uri-host [ ":" port ], not empty, no user, port at most 65535. */
bool sp_is_authority(struct sp_slice s);

#endif
