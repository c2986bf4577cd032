/* parthead.h: the head of one part of a form, and the Content-Type that announces the form.
 * Private to src/http. All input is a stranger's. */
#ifndef SP_HTTP_PARTHEAD_H
#define SP_HTTP_PARTHEAD_H

#include "sallyport/multipart.h"

/* Finds the boundary in the request's Content-Type: 1 to 70 bchars, not ending in a blank. */
enum sp_mp_error sp_part_boundary(struct sp_slice content_type, struct sp_slice *boundary);
/* Reads head[0..n), lines that each end in CRLF, the blank one included. Names are unescaped in
 * place, and the part's slices borrow from head. */
enum sp_mp_error sp_part_head(char *head, size_t n, struct sp_mp_part *part);

#endif
