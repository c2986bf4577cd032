/* fuzz_head.c: the HTTP head parser, beside a second grammar (head_model.h) that takes the same
 * heads and reads the same in them. However the bytes are cut, the verdict is the same; an accepted
 * head has one framing, and its slices lie inside the input. Covers: src/http/head.c
 * src/http/field.c src/http/grammar.c */
#include "head_model.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    model_init();
    return 0;
}

static int in_pieces(const char *p, size_t n, size_t step, struct sp_head *h, enum sp_err *err)
{
    size_t from = 0;
    for (size_t len = step; len < n; len += step) {
        int r = sp_head_parse(p, len, from, h, err);
        if (r != 0)
            return r;
        from = len;
    }
    return sp_head_parse(p, n, from, h, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *p = (const char *)data;
    struct sp_head whole, cut;
    enum sp_err e1 = SP_OK, e2 = SP_OK;
    int r = sp_head_parse(p, size, 0, &whole, &e1);
    for (size_t step = 1; step <= 7; step += 3) {
        int q = in_pieces(p, size, step, &cut, &e2);
        /* A head that isn't whole yet may be refused later when it comes in pieces; never sooner.
         */
        if ((q == 1) != (r == 1) || (q < 0 && r >= 0) ||
            (r == 1 && (cut.size != whole.size || cut.length != whole.length ||
                        cut.chunked != whole.chunked)))
            abort();
    }
    if (r < 0 && !sp_err_valid((uint32_t)e1))
        abort();
    struct reading other;
    size_t its = 0;
    int said = model_read(p, size, &other, &its);
    if ((r == 1) != (said == 1) || (r == 0 && said != 0) ||
        (r == 1 && (its != whole.size || !model_agrees(&whole, &other))))
        abort();
    if (r == 1) {
        if ((whole.chunked && whole.has_length) || whole.size > size || whole.size > SP_HEAD_MAX)
            abort();
        if (whole.path.n > size ||
            (whole.path.n == 1 && whole.path.p[0] == '/'
                 ? 0
                 : whole.path.p < p || whole.path.p + whole.path.n > p + whole.size))
            abort();
        bool use_range;
        struct sp_slice tag = {"1-2-3", 5};
        uint64_t a, b;
        (void)sp_conditions(&whole, tag, 784111777, &use_range);
        if (sp_range_parse(whole.range, 1000, &a, &b) == SP_RANGE_ONE && (a > b || b >= 1000))
            abort();
        char *out = malloc(whole.path.n + 1);
        size_t n;
        if (out != NULL && sp_pct_decode(whole.path, out, &n) && n > whole.path.n)
            abort();
        free(out);
        (void)sp_accept_events(whole.accept);
    }
    return 0;
}
