/* folder.h: the entries of one folder, in order, as JSON. Names are bytes that commands chose. */
#ifndef SALLYPORT_CELL_FOLDER_H
#define SALLYPORT_CELL_FOLDER_H

#include "cell/entries.h"

#include <stdbool.h>
#include <stddef.h>

/* Writes the entries of the folder dir to o, with commas between them, sorted by the bytes of their
 * names. At most max, and at most SP_LIST_BYTES: *truncated, there are more. 0, -errno, or o->err.
 */
int sp_folder_list(int dir, size_t max, struct sp_out *o, bool *truncated);

#endif
