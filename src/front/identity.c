/* identity.c: the API key and the identity of a request. Neither is kept, logged or passed on: of a
 * key only its SHA-256 is compared, of an identity only a SHA-256 names a workspace. What is hashed
 * begins with the form's tag and has every length in it, so that no two identities are the same
 * bytes. */
#include "identity.h"

#include "sallyport/box.h"
#include "sallyport/sha256.h"
#include "sallyport/utf8.h"

#include <string.h>
#include <strings.h>

/* The field's value; *count: how often it comes. */
static struct sp_slice field(const char *head, size_t n, const char *name, unsigned *count)
{
    const char *p = head, *end = head + n;
    size_t len = strlen(name);
    struct sp_slice found = {NULL, 0};
    *count = 0;
    while (p < end) {
        const char *lf = memchr(p, '\n', (size_t)(end - p));
        const char *stop = lf != NULL && lf > p && lf[-1] == '\r' ? lf - 1 : lf;
        if (lf == NULL)
            break;
        if ((size_t)(stop - p) > len && p[len] == ':' && strncasecmp(p, name, len) == 0) {
            found = (struct sp_slice){p + len + 1, (size_t)(stop - p) - len - 1};
            ++*count;
        }
        p = lf + 1;
    }
    while (found.n > 0 && (found.p[0] == ' ' || found.p[0] == '\t')) {
        found.p++;
        found.n--;
    }
    while (found.n > 0 && (found.p[found.n - 1] == ' ' || found.p[found.n - 1] == '\t'))
        found.n--;
    return found;
}

bool identity_authorised(const char *head, size_t n, const struct sp_config *c)
{
    static const char scheme[] = BOX_AUTH_SCHEME;
    unsigned count;
    struct sp_slice v = field(head, n, BOX_H_AUTHORIZATION, &count);
    size_t len = sizeof scheme - 1;
    if (count != 1 || v.n <= len || strncasecmp(v.p, scheme, len) != 0 || v.p[len] != ' ')
        return false;
    v.p += len;
    v.n -= len;
    while (v.n > 0 && v.p[0] == ' ') {
        v.p++;
        v.n--;
    }
    uint8_t digest[SP_SHA256_LEN];
    struct sp_sha256 h;
    sp_sha256_init(&h);
    sp_sha256_add(&h, v.p, v.n);
    sp_sha256_end(&h, digest);
    bool same = false;
    for (uint32_t i = 0; i < c->nkeys; i++) /* all of them, whatever comes first */
        same |= sp_same_digest(digest, c->api_key[i]);
    return same;
}

/* Text that people see: no blank, no control, well-formed. */
static bool fit(struct sp_slice s)
{
    if (s.n == 0 || s.n > BOX_IDENTITY_MAX || !sp_utf8_valid(s.p, s.n))
        return false;
    for (size_t i = 0; i < s.n; i++) {
        unsigned char ch = (unsigned char)s.p[i];
        if (ch <= ' ' || ch == 0x7f)
            return false;
        if (ch == 0xc2 && (unsigned char)s.p[i + 1] < 0xa0) /* C1 controls */
            return false;
    }
    return true;
}

static void add(struct sp_sha256 *h, const char *p, size_t n)
{
    const uint8_t len[4] = {(uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};
    sp_sha256_add(h, len, sizeof len);
    sp_sha256_add(h, p, n);
}

static void digest(const char *tag, struct sp_slice a, struct sp_slice b, uint8_t *key)
{
    struct sp_sha256 h;
    sp_sha256_init(&h);
    add(&h, tag, strlen(tag));
    add(&h, a.p, a.n);
    if (b.p != NULL)
        add(&h, b.p, b.n);
    sp_sha256_end(&h, key);
}

enum sp_err identity_read(const char *head, size_t n, uint8_t key[SP_KEY_LEN], const char **why)
{
    unsigned ni, nt, nu;
    struct sp_slice id = field(head, n, BOX_H_IDENTITY, &ni);
    struct sp_slice tenant = field(head, n, BOX_H_TENANT, &nt);
    struct sp_slice user = field(head, n, BOX_H_USER, &nu);
    *why = NULL;
    if (ni > 1 || nt > 1 || nu > 1)
        *why = "A header of the identity comes more than once.";
    else if (ni + nt + nu == 0)
        *why = "The request names no identity: X-Runbox-Identity, or X-Runbox-Tenant and "
               "X-Runbox-User.";
    else if (ni == 1 && nt + nu > 0)
        *why = "The request names an identity in both forms.";
    else if (ni == 0 && nt != nu)
        *why = "X-Runbox-Tenant and X-Runbox-User come together or not at all.";
    else if (ni == 1 ? !fit(id) : !fit(tenant) || !fit(user))
        *why = "A header of the identity must hold 1 to 256 bytes of visible text without blanks.";
    if (*why != NULL)
        return SP_E_BAD_IDENTITY;
    if (ni == 1)
        digest(BOX_TAG_IDENTITY, id, (struct sp_slice){NULL, 0}, key);
    else
        digest(BOX_TAG_PAIR, tenant, user, key);
    return SP_OK;
}

void identity_probe(uint8_t key[SP_KEY_LEN])
{
    digest(BOX_TAG_PROBE, (struct sp_slice){"", 0}, (struct sp_slice){NULL, 0}, key);
}
