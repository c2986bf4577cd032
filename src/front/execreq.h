/* execreq.h: reads an /execute body. Pure: bytes in, a request or a sentence out; a fuzz
 * target of its own. The body is hostile. */
#ifndef SP_EXECREQ_H
#define SP_EXECREQ_H

#include "sallyport/err.h"

#include <stddef.h>
#include <stdint.h>

struct exec_request {
    char *command; /* NUL-terminated; all strings owned */
    size_t command_len;
    char *cwd; /* workspace-relative, "" by default */
    size_t cwd_len;
    char *env; /* "K=V\0" strings */
    size_t env_len;
    uint32_t nenv;
    char *stdin_text; /* NULL: none given */
    size_t stdin_len;
    uint64_t timeout_ms;
};

/* Reads body. workspace: absolute, to make an absolute cwd relative. SP_OK, or the code with a
 * sentence in why. On failure req holds nothing. */
enum sp_err exec_request_read(const char *body, size_t n, const char *workspace,
                              uint64_t default_ms, uint64_t max_ms, struct exec_request *req,
                              char *why, size_t whylen);
void exec_request_free(struct exec_request *req);

#endif
