/* fuzz_proto.c: every message between processes, as its receiver reads it: what decodes is within
 * its limits, and encodes to the same bytes. */
#include "sallyport/proto.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t buf[SP_FRAME_MAX];
    for (int nfds = 0; nfds <= SP_FRAME_FDS; nfds++) {
        struct sp_msg m;
        if (!sp_msg_decode(&m, data, size, nfds))
            continue;
        size_t n = sp_msg_encode(&m, buf, sizeof buf);
        if (n != size || memcmp(buf, data, n) != 0)
            abort();
    }
    return 0;
}
