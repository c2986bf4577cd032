/* multipart.h: a multipart/form-data body (RFC 7578, RFC 2046 5.1) as a stream of events. No I/O,
 * no allocation, constant memory; the same events, but for where data is cut, at every split of the
 * input. All input is a stranger's.
 *
 * Strict, as two readers that disagree on where a part ends disagree on what a file holds:
 * - Nothing before the first delimiter; after the closing one at most one CRLF. At least one part.
 * - Lines end in CRLF. A delimiter is CRLF "--" boundary and then CRLF or "--": what begins like
 * one and goes on otherwise is refused, and so is "--" boundary right after a part's blank line,
 *   which readers take either way.
 * - A part has one Content-Disposition: form-data with one name, at most one filename (token or
 *   quoted), at most one Content-Type. Content-Transfer-Encoding may only say what changes nothing.
 *   Other fields must be well-formed and are ignored.
 * - In quotes a backslash stands before a quote or a backslash and nowhere else. Percent signs are
 *   left as they are: browsers write %22 for a quote, but don't encode the percent sign.
 * - `filename*` (RFC 8187) is refused, as RFC 7578 4.2 forbids it: it would be a second name.
 * - Names are UTF-8 without control characters. Whether a filename is a fit path is the caller's
 *   matter. */
#ifndef SALLYPORT_MULTIPART_H
#define SALLYPORT_MULTIPART_H

#include "sallyport/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SP_MP_HEAD_MAX 8192u     /* bytes of a part's head, its blank line included */
#define SP_MP_NAME_MAX 256u      /* bytes of a field's name */
#define SP_MP_FILENAME_MAX 4096u /* of a filename */
#define SP_MP_BOUNDARY_MAX 70u   /* RFC 2046 */

enum sp_mp_event {
    SP_MP_MORE,     /* all input is used: feed more, or finish */
    SP_MP_PART,     /* a part begins: m->part */
    SP_MP_DATA,     /* bytes of it, *dn > 0 */
    SP_MP_PART_END, /* its last byte was before this */
    SP_MP_END,      /* the closing delimiter; what still comes is checked all the same */
    SP_MP_ERROR     /* m->error says why; final */
};

enum sp_mp_error {
    SP_MP_OK = 0,
    SP_MP_E_TYPE,
    SP_MP_E_BOUNDARY,
    SP_MP_E_PREAMBLE,
    SP_MP_E_DELIMITER,
    SP_MP_E_HEAD_LARGE,
    SP_MP_E_HEAD,
    SP_MP_E_DISPOSITION,
    SP_MP_E_EXTENDED, /* filename*, name* */
    SP_MP_E_NAME,
    SP_MP_E_ENCODING,
    SP_MP_E_MANY,
    SP_MP_E_EMPTY,
    SP_MP_E_EPILOGUE,
    SP_MP_E_UNFINISHED,
    SP_MP_ERROR_COUNT
};

struct sp_mp_part {
    struct sp_slice name;
    bool has_filename; /* a browser's empty file field has one of no bytes */
    struct sp_slice filename;
    struct sp_slice content_type; /* as it stood; p NULL when absent */
};

/* Not to be copied: part points into head. */
struct sp_multipart {
    int state;
    enum sp_mp_error error;
    uint32_t parts, max_parts;
    bool fresh; /* no data byte yet: the blank line's CRLF counts as the delimiter's */
    size_t matched, delim_n, head_n;
    struct sp_mp_part part; /* from PART until the next PART */
    char delim[4 + SP_MP_BOUNDARY_MAX];
    char head[SP_MP_HEAD_MAX];
};

/* content_type: the request's field, p NULL when absent. SP_MP_OK, or SP_MP_E_TYPE (another type:
 * 415) or SP_MP_E_BOUNDARY. */
enum sp_mp_error sp_multipart_init(struct sp_multipart *m, struct sp_slice content_type,
                                   uint32_t max_parts);
/* Looks at in[0..n) and uses *used of it. Call again with the rest until it says MORE, even where
 * nothing is left. *data and *dn with DATA: inside in, or inside m (bytes held back that might have
 * begun a delimiter), valid until the next call. */
enum sp_mp_event sp_multipart_next(struct sp_multipart *m, const char *in, size_t n, size_t *used,
                                   const char **data, size_t *dn);
/* The body is over: SP_MP_OK, or why it may not end here. */
enum sp_mp_error sp_multipart_finish(struct sp_multipart *m);
/* A sentence for people; ends in '.'. */
const char *sp_mp_error_text(enum sp_mp_error e);

#endif
