/* test_http_multipart.c: the form parser. Each body whole and cut at every place, byte by byte too;
 * what comes out is compared as one line of text. */
#include "sallyport/multipart.h"

#include "unit.h"

#include <stdio.h>

#define TYPE "multipart/form-data; boundary=b"
#define HEAD "Content-Disposition: form-data; name=\"f\"\r\n\r\n"

static char out[200000];
static size_t out_n;
static struct sp_multipart m;

static void put(const char *p, size_t n)
{
    ck_assert_uint_le(n, sizeof out - out_n - 1);
    if (n > 0)
        memcpy(out + out_n, p, n);
    out_n += n;
    out[out_n] = '\0';
}

static void event(enum sp_mp_event ev, const char *d, size_t dn)
{
    switch (ev) {
    case SP_MP_PART:
        put("<", 1);
        put(m.part.name.p, m.part.name.n);
        if (m.part.has_filename) {
            put("|", 1);
            put(m.part.filename.p, m.part.filename.n);
        }
        if (m.part.content_type.p != NULL) {
            put("#", 1);
            put(m.part.content_type.p, m.part.content_type.n);
        }
        put(">", 1);
        break;
    case SP_MP_DATA:
        put(d, dn);
        break;
    case SP_MP_PART_END:
        put("</>", 3);
        break;
    case SP_MP_END:
        put("$", 1);
        break;
    default:
        break;
    }
}

/* Feeds pieces of `first`, then `step` bytes, each in memory of its own. */
static enum sp_mp_error feed(struct sp_slice type, struct sp_slice in, size_t first, size_t step)
{
    out_n = 0;
    out[0] = '\0';
    enum sp_mp_error e = sp_multipart_init(&m, type, 3);
    if (e != SP_MP_OK)
        return e;
    for (size_t at = 0, len = first; at < in.n; at += len, len = step) {
        len = len < in.n - at ? len : in.n - at;
        char *part = malloc(len > 0 ? len : 1);
        ck_assert_ptr_nonnull(part);
        memcpy(part, in.p + at, len);
        enum sp_mp_event ev;
        size_t off = 0;
        do {
            const char *d;
            size_t used, dn;
            ev = sp_multipart_next(&m, part + off, len - off, &used, &d, &dn);
            ck_assert_uint_le(used, len - off);
            ck_assert((ev == SP_MP_DATA) == (dn > 0));
            event(ev, d, dn);
            off += used;
        } while (ev != SP_MP_MORE && ev != SP_MP_ERROR);
        ck_assert(ev == SP_MP_ERROR || off == len);
        free(part);
    }
    return sp_multipart_finish(&m);
}

/* The verdict, the same at every split; out holds what came of it. */
static enum sp_mp_error parse(const char *type, struct sp_slice in)
{
    static char first_out[sizeof out];
    struct sp_slice t = {type, type != NULL ? strlen(type) : 0};
    enum sp_mp_error e = feed(t, in, in.n, in.n);
    size_t n = out_n;
    memcpy(first_out, out, n + 1);
    for (size_t cut = 0; cut <= in.n + 1 && in.n < 2000; cut++) {
        enum sp_mp_error again = cut <= in.n ? feed(t, in, cut, in.n) : feed(t, in, 1, 1);
        ck_assert_msg(again == e, "cut at %zu: %d, not %d: %s", cut, (int)again, (int)e, in.p);
        ck_assert_uint_eq(out_n, n);
        ck_assert_mem_eq(out, first_out, n);
    }
    return e;
}

static void good(const char *type, struct sp_slice in, struct sp_slice want)
{
    enum sp_mp_error e = parse(type, in);
    ck_assert_msg(e == SP_MP_OK, "%s\n%s", sp_mp_error_text(e), in.p);
    ck_assert_msg(out_n == want.n && memcmp(out, want.p, want.n) == 0, "%s\nnot\n%s", out, want.p);
}

START_TEST(forms)
{
    good(TYPE, SLICE("--b\r\n" HEAD "hello\r\n--b--\r\n"), SLICE("<f>hello</>$"));
    good(TYPE, SLICE("--b\r\n" HEAD "hello\r\n--b--"), SLICE("<f>hello</>$"));
    good(TYPE, SLICE("--b\r\n" HEAD "\r\n--b--"), SLICE("<f></>$"));
    good(TYPE,
         SLICE("--b\r\nContent-Disposition: form-data; name=\"a\"; filename=\"x.txt\"\r\n"
               "Content-Type: text/plain; charset=utf-8\r\n\r\none\r\n--b\r\n"
               "content-type:application/octet-stream\r\nX-Other: \"?\r\n"
               "CONTENT-DISPOSITION:FORM-DATA ;\tNAME=b ; FileName=y\r\n\r\ntwo\r\n--b\r\n" HEAD
               "three\r\n--b--\r\n"),
         SLICE("<a|x.txt#text/plain; charset=utf-8>one</><b|y#application/octet-stream>two</>"
               "<f>three</>$"));
    /* What a browser sends for a file field that nobody filled in. */
    good(TYPE,
         SLICE("--b\r\nContent-Disposition: form-data; name=\"a\"; filename=\"\"\r\n\r\n\r\n"
               "--b--\r\n"),
         SLICE("<a|></>$"));
}
END_TEST

START_TEST(data_like_delimiters)
{
    /* All that could be mistaken for a delimiter, or for its beginning. */
    good(TYPE, SLICE("--b\r\n" HEAD "\r\r\n\n\r\n-\r\n--\r\n--a\r\r\n--\r\n--b--"),
         SLICE("<f>\r\r\n\n\r\n-\r\n--\r\n--a\r\r\n--</>$"));
    good(TYPE, SLICE("--b\r\n" HEAD "x--b\r\n--a--b--\r\n --b\r\n--b--"),
         SLICE("<f>x--b\r\n--a--b--\r\n --b</>$"));
    good(TYPE, SLICE("--b\r\n" HEAD "-\r\n--b--"), SLICE("<f>-</>$"));
    good(TYPE, SLICE("--b\r\n" HEAD "--\r\n--b--"), SLICE("<f>--</>$"));
    good(TYPE, SLICE("--b\r\n" HEAD "\n--b\r\n\r\n--b--"), SLICE("<f>\n--b\r\n</>$"));
    good(TYPE, SLICE("--b\r\n" HEAD "\r--b\r\n--b--"), SLICE("<f>\r--b</>$"));
    good(TYPE, SLICE("--b\r\n" HEAD "\0\xff\0\r\n\0--b\r\n--b--"),
         SLICE("<f>\0\xff\0\r\n\0--b</>$"));
    good("multipart/form-data; boundary=\"--\"", SLICE("----\r\n" HEAD "---\r\n---\r\n------\r\n"),
         SLICE("<f>---\r\n---</>$"));
    good("multipart/form-data; boundary=aab",
         SLICE("--aab\r\n" HEAD "\r\n--aa\r\n--aaab\r\n--aab--"),
         SLICE("<f>\r\n--aa\r\n--aaab</>$"));
}
END_TEST

START_TEST(names)
{
    static const struct {
        const char *disposition, *want;
    } t[] = {
        {"form-data; name=\"a\\\"b\\\\c\"", "<a\"b\\c></>$"},
        {"form-data; name=\"%22\"; filename=\"a%2Fb\"", "<%22|a%2Fb></>$"},
        {"form-data; name=\"x;filename=y\"", "<x;filename=y></>$"},
        {"form-data; name=\"x\"; filename=\"a=b; name=c\"", "<x|a=b; name=c></>$"},
        {"form-data; name=\"\xc3\xa4\"; filename=\"\xe2\x82\xac/../x\"",
         "<\xc3\xa4|\xe2\x82\xac/../x></>$"},
        {"form-data; name=x; size=3; filename=y", "<x|y></>$"},
        {"form-data;name=x;filename=\" a \"", "<x| a ></>$"},
        {"form-data; filename=y; name=x", "<x|y></>$"},
    };
    char in[400];
    for (size_t i = 0; i < COUNT(t); i++) {
        int n = snprintf(in, sizeof in, "--b\r\nContent-Disposition: %s\r\n\r\n\r\n--b--\r\n",
                         t[i].disposition);
        good(TYPE, (struct sp_slice){in, (size_t)n},
             (struct sp_slice){t[i].want, strlen(t[i].want)});
    }
}
END_TEST

START_TEST(bad_heads)
{
    static const struct {
        struct sp_slice head;
        enum sp_mp_error e;
    } t[] = {
        {SLICE(""), SP_MP_E_DISPOSITION},
        {SLICE("Content-Type: a/b\r\n"), SP_MP_E_DISPOSITION},
        {SLICE("Content-Disposition: form-data\r\n"), SP_MP_E_DISPOSITION},
        {SLICE("Content-Disposition: attachment; name=a\r\n"), SP_MP_E_DISPOSITION},
        {SLICE("Content-Disposition: form-datax; name=a\r\n"), SP_MP_E_DISPOSITION},
        {SLICE("Content-Disposition: form-data name=a\r\n"), SP_MP_E_DISPOSITION},
        {SLICE("Content-Disposition: form-data; name=a;\r\n"), SP_MP_E_DISPOSITION},
        {SLICE("Content-Disposition: form-data; name=a; name=b\r\n"), SP_MP_E_DISPOSITION},
        {SLICE("Content-Disposition: form-data; name=a; filename=b; filename=c\r\n"),
         SP_MP_E_DISPOSITION},
        {SLICE("Content-Disposition: form-data; filename=c\r\n"), SP_MP_E_DISPOSITION},
        {SLICE("Content-Disposition: form-data; name\r\n"), SP_MP_E_DISPOSITION},
        {SLICE("Content-Disposition: form-data; name=\r\n"), SP_MP_E_DISPOSITION},
        {SLICE("Content-Disposition: form-data; name =a\r\n"), SP_MP_E_DISPOSITION},
        {SLICE("Content-Disposition: form-data; name= a\r\n"), SP_MP_E_DISPOSITION},
        {SLICE("Content-Disposition: form-data; name=\"a\r\n"), SP_MP_E_DISPOSITION},
        {SLICE("Content-Disposition: form-data; name=\"a\\\"\r\n"), SP_MP_E_DISPOSITION},
        {SLICE("Content-Disposition: form-data; name=\"a\\b\"\r\n"), SP_MP_E_DISPOSITION},
        {SLICE("Content-Disposition: form-data; name=\"a\"b\r\n"), SP_MP_E_DISPOSITION},
        {SLICE("Content-Disposition: form-data; name='a b'\r\n"), SP_MP_E_DISPOSITION},
        {SLICE("Content-Disposition: form-data; name=a/b\r\n"), SP_MP_E_DISPOSITION},
        {SLICE("Content-Disposition: form-data; name=a; filename*=utf-8''b\r\n"), SP_MP_E_EXTENDED},
        {SLICE("Content-Disposition: form-data; name=a; filename=b; FILENAME*=UTF-8''c\r\n"),
         SP_MP_E_EXTENDED},
        {SLICE("Content-Disposition: form-data; name*=utf-8''b\r\n"), SP_MP_E_EXTENDED},
        {SLICE("Content-Disposition: form-data; name=a; filename*0=b\r\n"), SP_MP_E_EXTENDED},
        {SLICE("Content-Disposition: form-data; name=\"\"\r\n"), SP_MP_E_NAME},
        {SLICE("Content-Disposition: form-data; name=\"\xff\"\r\n"), SP_MP_E_NAME},
        {SLICE("Content-Disposition: form-data; name=\"a\tb\"\r\n"), SP_MP_E_NAME},
        {SLICE("Content-Disposition: form-data; name=a; filename=\"\xc3\"\r\n"), SP_MP_E_NAME},
        {SLICE("Content-Disposition: form-data; name=\"a\0b\"\r\n"), SP_MP_E_HEAD},
        {SLICE("Content-Disposition: form-data; name=\"a\x7f\"\r\n"), SP_MP_E_HEAD},
        {SLICE("Content-Disposition: form-data; name=\"a\nb\"\r\n"), SP_MP_E_HEAD},
        {SLICE("Content-Disposition: form-data; name=\"a\rb\"\r\n"), SP_MP_E_HEAD},
        {SLICE("Content-Disposition: form-data; name=a\nX: y\r\n"), SP_MP_E_HEAD},
        {SLICE("Content-Disposition: form-data; name=a\r\n filename=b\r\n"), SP_MP_E_HEAD},
        {SLICE("Content-Disposition : form-data; name=a\r\n"), SP_MP_E_HEAD},
        {SLICE(" Content-Disposition: form-data; name=a\r\n"), SP_MP_E_HEAD},
        {SLICE("Content-Disposition: form-data; name=a\r\nno colon\r\n"), SP_MP_E_HEAD},
        {SLICE("Content-Disposition: form-data; name=a\r\n: v\r\n"), SP_MP_E_HEAD},
        {SLICE("Content-Disposition: form-data; name=a\r\n"
               "content-disposition: form-data; name=b\r\n"),
         SP_MP_E_HEAD},
        {SLICE("Content-Type: a/b\r\nContent-Type: a/b\r\n"), SP_MP_E_HEAD},
        {SLICE("Content-Type:\r\n"), SP_MP_E_HEAD},
        {SLICE("Content-Transfer-Encoding: base64\r\n"), SP_MP_E_ENCODING},
        {SLICE("Content-Transfer-Encoding: quoted-printable\r\n"), SP_MP_E_ENCODING},
        {SLICE("Content-Transfer-Encoding: binary\r\nContent-Disposition: form-data; name=a\r\n"),
         SP_MP_OK},
    };
    char in[400];
    for (size_t i = 0; i < COUNT(t); i++) {
        size_t n = 0;
        memcpy(in, "--b\r\n", n += 5);
        memcpy(in + n, t[i].head.p, t[i].head.n);
        n += t[i].head.n;
        memcpy(in + n, "\r\nx\r\n--b--\r\n", 12);
        n += 12;
        enum sp_mp_error e = parse(TYPE, (struct sp_slice){in, n});
        ck_assert_msg(e == t[i].e, "%s: %s", t[i].head.p, sp_mp_error_text(e));
    }
}
END_TEST

START_TEST(bad_bodies)
{
    static const struct {
        struct sp_slice in;
        enum sp_mp_error e;
    } t[] = {
        {SLICE(""), SP_MP_E_UNFINISHED},
        {SLICE("--"), SP_MP_E_UNFINISHED},
        {SLICE("--b"), SP_MP_E_UNFINISHED},
        {SLICE("--b\r\n"), SP_MP_E_UNFINISHED},
        {SLICE("--b\r\n" HEAD), SP_MP_E_UNFINISHED},
        {SLICE("--b\r\n" HEAD "x"), SP_MP_E_UNFINISHED},
        {SLICE("--b\r\n" HEAD "x\r\n--b"), SP_MP_E_UNFINISHED},
        {SLICE("--b\r\n" HEAD "x\r\n--b-"), SP_MP_E_UNFINISHED},
        {SLICE("--b\r\n" HEAD "x\r\n--b\r\n"), SP_MP_E_UNFINISHED},
        {SLICE("--b\r\n" HEAD "x\r\n--b--\r"), SP_MP_E_UNFINISHED},
        {SLICE("\r\n--b\r\n" HEAD "x\r\n--b--"), SP_MP_E_PREAMBLE},
        {SLICE("preamble\r\n--b\r\n" HEAD "x\r\n--b--"), SP_MP_E_PREAMBLE},
        {SLICE("--c\r\n" HEAD "x\r\n--c--"), SP_MP_E_PREAMBLE},
        {SLICE("-b\r\n" HEAD), SP_MP_E_PREAMBLE},
        {SLICE("--b--"), SP_MP_E_EMPTY},
        {SLICE("--b--\r\n"), SP_MP_E_EMPTY},
        {SLICE("--b\n" HEAD), SP_MP_E_DELIMITER},
        {SLICE("--b \r\n" HEAD "x\r\n--b--"), SP_MP_E_DELIMITER}, /* transport padding */
        {SLICE("--bb\r\n" HEAD), SP_MP_E_DELIMITER},
        {SLICE("--b\r\n" HEAD "x\r\n--bb\r\n--b--"), SP_MP_E_DELIMITER},
        {SLICE("--b\r\n" HEAD "x\r\n--b\n"), SP_MP_E_DELIMITER},
        {SLICE("--b\r\n" HEAD "x\r\n--b\rx"), SP_MP_E_DELIMITER},
        {SLICE("--b\r\n" HEAD "x\r\n--b-x"), SP_MP_E_DELIMITER},
        {SLICE("--b\r\n" HEAD "x\r\n--b \r\n"), SP_MP_E_DELIMITER},
        {SLICE("--b\r\n" HEAD "--b--\r\n"), SP_MP_E_DELIMITER}, /* the blank line's CRLF twice */
        {SLICE("--b\r\n" HEAD "x\r\n--b--x"), SP_MP_E_EPILOGUE},
        {SLICE("--b\r\n" HEAD "x\r\n--b--\n"), SP_MP_E_EPILOGUE},
        {SLICE("--b\r\n" HEAD "x\r\n--b--\r\n\r\n"), SP_MP_E_EPILOGUE},
        {SLICE("--b\r\n" HEAD "x\r\n--b--\r\n--b\r\n"), SP_MP_E_EPILOGUE},
        {SLICE("--b\r\n" HEAD "1\r\n--b\r\n" HEAD "2\r\n--b\r\n" HEAD "3\r\n--b\r\n" HEAD
               "4\r\n--b--"),
         SP_MP_E_MANY},
    };
    for (size_t i = 0; i < COUNT(t); i++) {
        enum sp_mp_error e = parse(TYPE, t[i].in);
        ck_assert_msg(e == t[i].e, "%s: %s", t[i].in.p, sp_mp_error_text(e));
    }
}
END_TEST

#define B10 "0123456789"
#define B70 B10 B10 B10 B10 B10 B10 B10

START_TEST(content_types)
{
    static const struct {
        const char *type;
        enum sp_mp_error e;
    } t[] = {
        {NULL, SP_MP_E_TYPE},
        {"", SP_MP_E_TYPE},
        {"multipart/mixed; boundary=b", SP_MP_E_TYPE},
        {"multipart/form-datax; boundary=b", SP_MP_E_TYPE},
        {"multipart/form-data, multipart/form-data; boundary=b", SP_MP_E_TYPE},
        {"application/json", SP_MP_E_TYPE},
        {"multipart/form-data", SP_MP_E_BOUNDARY},
        {"multipart/form-data;", SP_MP_E_BOUNDARY},
        {"multipart/form-data; boundary", SP_MP_E_BOUNDARY},
        {"multipart/form-data; boundary=", SP_MP_E_BOUNDARY},
        {"multipart/form-data; boundary=\"\"", SP_MP_E_BOUNDARY},
        {"multipart/form-data; boundary=\"b", SP_MP_E_BOUNDARY},
        {"multipart/form-data; boundary=\"b \"", SP_MP_E_BOUNDARY},
        {"multipart/form-data; boundary=\"b\\\"\"", SP_MP_E_BOUNDARY},
        {"multipart/form-data; boundary=b; boundary=b", SP_MP_E_BOUNDARY},
        {"multipart/form-data; boundary=b;", SP_MP_E_BOUNDARY},
        {"multipart/form-data; boundary=b c", SP_MP_E_BOUNDARY},
        {"multipart/form-data; boundary=b!", SP_MP_E_BOUNDARY},
        {"multipart/form-data; boundary=\"b\xc3\xa4\"", SP_MP_E_BOUNDARY},
        {"multipart/form-data; boundary=" B70 "x", SP_MP_E_BOUNDARY},
        {"multipart/form-data; boundary=" B70, SP_MP_OK},
        {"Multipart/Form-Data;Boundary=b", SP_MP_OK},
        {"multipart/form-data ; charset=utf-8; boundary=\"b\"", SP_MP_OK},
        {"multipart/form-data; boundary=\"a b'()+_,-./:=?\"", SP_MP_OK},
    };
    for (size_t i = 0; i < COUNT(t); i++) {
        struct sp_slice s = {t[i].type, t[i].type != NULL ? strlen(t[i].type) : 0};
        enum sp_mp_error e = sp_multipart_init(&m, s, 1);
        ck_assert_msg(e == t[i].e, "%s: %s", t[i].type, sp_mp_error_text(e));
        if (e != SP_MP_OK) { /* and it stays refused */
            const char *d;
            size_t used, dn;
            ck_assert_int_eq(sp_multipart_next(&m, "--b", 3, &used, &d, &dn), SP_MP_ERROR);
            ck_assert_int_eq(sp_multipart_finish(&m), e);
        }
    }
    good("multipart/form-data; boundary=" B70,
         SLICE("--" B70 "\r\n" HEAD B70 "\r\n--" B10 "\r\n--" B70 "--"),
         SLICE("<f>" B70 "\r\n--" B10 "</>$"));
    good("multipart/form-data; boundary=\"a b\"", SLICE("--a b\r\n" HEAD "\r\n--a \r\n--a b--"),
         SLICE("<f>\r\n--a </>$"));
}
END_TEST

START_TEST(bounds)
{
    static char in[SP_MP_HEAD_MAX + 100];
    static const char start[] = "--b\r\nContent-Disposition: form-data; name=a\r\nX: ";
    static const char end[] = "\r\n\r\nx\r\n--b--";
    for (int over = 0; over < 2; over++) { /* a head of as many bytes as allowed, and of one more */
        size_t fill = SP_MP_HEAD_MAX - (sizeof start - 1 - 5) - 4 + (size_t)over, n = 0;
        memcpy(in, start, n += sizeof start - 1);
        memset(in + n, 'x', fill);
        n += fill;
        memcpy(in + n, end, sizeof end - 1);
        n += sizeof end - 1;
        enum sp_mp_error e = parse(TYPE, (struct sp_slice){in, n});
        ck_assert_int_eq(e, over ? SP_MP_E_HEAD_LARGE : SP_MP_OK);
    }
    for (int over = 0; over < 2; over++) { /* and the same for names */
        for (int file = 0; file < 2; file++) {
            size_t max = (file ? SP_MP_FILENAME_MAX : SP_MP_NAME_MAX) + (size_t)over;
            int n = snprintf(in, sizeof in, "--b\r\nContent-Disposition: form-data; %sname=",
                             file ? "name=a; file" : "");
            memset(in + n, 'x', max);
            memcpy(in + (size_t)n + max, "\r\n\r\nx\r\n--b--", sizeof end - 1);
            enum sp_mp_error e =
                parse(TYPE, (struct sp_slice){in, (size_t)n + max + sizeof end - 1});
            ck_assert_int_eq(e, over ? SP_MP_E_NAME : SP_MP_OK);
        }
    }
}
END_TEST

UNIT_MAIN("http_multipart", forms, data_like_delimiters, names, bad_heads, bad_bodies,
          content_types, bounds)
