/* test_wire.c: the cursors never leave their buffer, and one failure is remembered to the end. */
#include "sallyport/wire.h"

#include "unit.h"

START_TEST(round_trip)
{
    uint8_t buf[64];
    struct sp_wr w;
    sp_wr_init(&w, buf, sizeof buf);
    sp_wr_u8(&w, 0xfe);
    sp_wr_u16(&w, 0x1234);
    sp_wr_u32(&w, 0xdeadbeef);
    sp_wr_u64(&w, 0x0123456789abcdefu);
    sp_wr_bytes(&w, "a\0b", 3);
    sp_wr_bytes(&w, NULL, 0);
    sp_wr_bytes(&w, "xyz", 3);
    ck_assert(!w.bad);
    ck_assert_uint_eq(w.len, 15 + 7 + 4 + 7);
    ck_assert_uint_eq(buf[1], 0x34); /* little-endian on every host */
    ck_assert_uint_eq(buf[3], 0xef);

    struct sp_rd r;
    sp_rd_init(&r, buf, w.len);
    ck_assert_uint_eq(sp_rd_u8(&r), 0xfe);
    ck_assert_uint_eq(sp_rd_u16(&r), 0x1234);
    ck_assert_uint_eq(sp_rd_u32(&r), 0xdeadbeef);
    ck_assert(sp_rd_u64(&r) == 0x0123456789abcdefu);
    struct sp_slice s = sp_rd_bytes(&r, 3);
    ck_assert_uint_eq(s.n, 3);
    ck_assert_mem_eq(s.p, "a\0b", 3);
    ck_assert_uint_eq(sp_rd_str(&r, 0).n, 0);
    ck_assert(!sp_rd_done(&r)); /* something is left */
    s = sp_rd_str(&r, 10);
    ck_assert_mem_eq(s.p, "xyz", 3);
    ck_assert(sp_rd_done(&r));
}
END_TEST

START_TEST(writer_bounds)
{
    for (size_t cap = 0; cap < 12; cap++) {
        uint8_t buf[16];
        memset(buf, 0xaa, sizeof buf);
        struct sp_wr w;
        sp_wr_init(&w, buf, cap);
        sp_wr_u32(&w, 1);
        sp_wr_bytes(&w, "1234", 4);
        ck_assert(w.bad);
        ck_assert_uint_le(w.len, cap);
        for (size_t i = cap; i < sizeof buf; i++)
            ck_assert_uint_eq(buf[i], 0xaa);
        size_t len = w.len;
        sp_wr_u8(&w, 1); /* nothing after a failure, even if it would fit */
        ck_assert_uint_eq(w.len, len);
    }
}
END_TEST

START_TEST(writer_huge)
{
    uint8_t buf[8];
    struct sp_wr w;
    sp_wr_init(&w, buf, sizeof buf);
    sp_wr_bytes(&w, buf, (size_t)UINT32_MAX + 1);
    ck_assert(w.bad);
    ck_assert_uint_eq(w.len, 0);
}
END_TEST

START_TEST(reader_overrun)
{
    static const uint8_t buf[7] = {1, 2, 3, 4, 5, 6, 7};
    struct sp_rd r;
    sp_rd_init(&r, buf, sizeof buf);
    ck_assert(sp_rd_u64(&r) == 0);
    ck_assert(r.bad);
    ck_assert_uint_eq(sp_rd_u8(&r), 0); /* stays bad */
    ck_assert_uint_eq(sp_rd_u16(&r), 0);
    ck_assert_uint_eq(sp_rd_u32(&r), 0);
    ck_assert_uint_eq(sp_rd_bytes(&r, 100).n, 0);
    ck_assert(!sp_rd_done(&r));
    sp_rd_init(&r, NULL, 0);
    ck_assert(sp_rd_done(&r));
    ck_assert_uint_eq(sp_rd_u8(&r), 0);
    ck_assert(!sp_rd_done(&r));
}
END_TEST

START_TEST(reader_strings)
{
    static const struct {
        const char *bytes;
        size_t len, max;
        bool ok_bytes, ok_str;
    } t[] = {
        {"\3\0\0\0abc", 7, 3, true, true},    {"\3\0\0\0abc", 7, 2, false, false},
        {"\4\0\0\0abc", 7, 9, false, false},  {"\377\377\377\377abc", 7, SIZE_MAX, false, false},
        {"\3\0\0\0a\0c", 7, 3, true, false},  {"\3\0\0", 3, 9, false, false},
        {"\0\0\0\0", 4, 0, true, true},       {"\1\0\0\0\0", 5, 1, true, false},
        {"\0\0\0\200abc", 7, 9, false, false}};
    for (size_t i = 0; i < COUNT(t); i++) {
        struct sp_rd r;
        sp_rd_init(&r, t[i].bytes, t[i].len);
        struct sp_slice s = sp_rd_bytes(&r, t[i].max);
        ck_assert_int_eq(sp_rd_done(&r), t[i].ok_bytes);
        ck_assert_ptr_nonnull(s.p);
        sp_rd_init(&r, t[i].bytes, t[i].len);
        s = sp_rd_str(&r, t[i].max);
        ck_assert_int_eq(sp_rd_done(&r), t[i].ok_str);
        ck_assert(t[i].ok_str || s.n == 0);
    }
}
END_TEST

UNIT_MAIN("wire", round_trip, writer_bounds, writer_huge, reader_overrun, reader_strings)
