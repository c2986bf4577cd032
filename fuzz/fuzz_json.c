/* fuzz_json.c: the /execute body reader. Whatever comes in, it returns a request within the limits
 * or an error with a sentence, and leaks nothing.
 * Covers: src/front/execreq.c */
#include "front/execreq.h"
#include "sallyport/proto.h"
#include "sallyport/utf8.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t buf[SP_FRAME_MAX];
    struct exec_request req;
    char why[200];
    enum sp_err e = exec_request_read((const char *)data, size, "/workspace", 1000, 5000, &req, why,
                                      sizeof why);
    if (e != SP_OK) {
        if (e != SP_E_OVERLOADED && (why[0] == '\0' || !sp_utf8_valid(why, strlen(why))))
            abort();
        return 0;
    }
    /* What the reader lets through the broker must accept: anything else would be a breach. */
    struct sp_msg m = {.op = SP_OP_EXEC,
                       .id = 1,
                       .command = {req.command, req.command_len},
                       .cwd = {req.cwd, req.cwd_len},
                       .env = {req.env, req.env_len},
                       .nenv = req.nenv,
                       .timeout_ms = req.timeout_ms};
    if (sp_msg_encode(&m, buf, sizeof buf) == 0 || req.timeout_ms == 0 || req.timeout_ms > 5000)
        abort();
    exec_request_free(&req);
    return 0;
}
