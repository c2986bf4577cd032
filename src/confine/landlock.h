/* landlock.h: Landlock's numbers, of our own because the headers that we build with know only the
 * first versions. Source: Documentation/userspace-api/landlock.rst of the kernel. */
#ifndef SP_CONFINE_LANDLOCK_H
#define SP_CONFINE_LANDLOCK_H

#include "sallyport/confine.h"

#include <stddef.h>
#include <stdint.h>

#define SP_LL_ABI_MAX 7 /* the highest that we know the meaning of */

#define SP_LL_EXECUTE (UINT64_C(1) << 0)
#define SP_LL_WRITE_FILE (UINT64_C(1) << 1)
#define SP_LL_READ_FILE (UINT64_C(1) << 2)
#define SP_LL_READ_DIR (UINT64_C(1) << 3)
#define SP_LL_REMOVE_DIR (UINT64_C(1) << 4)
#define SP_LL_REMOVE_FILE (UINT64_C(1) << 5)
#define SP_LL_MAKE_CHAR (UINT64_C(1) << 6)
#define SP_LL_MAKE_DIR (UINT64_C(1) << 7)
#define SP_LL_MAKE_REG (UINT64_C(1) << 8)
#define SP_LL_MAKE_SOCK (UINT64_C(1) << 9)
#define SP_LL_MAKE_FIFO (UINT64_C(1) << 10)
#define SP_LL_MAKE_BLOCK (UINT64_C(1) << 11)
#define SP_LL_MAKE_SYM (UINT64_C(1) << 12)
#define SP_LL_REFER (UINT64_C(1) << 13)     /* ABI 2 */
#define SP_LL_TRUNCATE (UINT64_C(1) << 14)  /* ABI 3 */
#define SP_LL_IOCTL_DEV (UINT64_C(1) << 15) /* ABI 5 */

#define SP_LL_BIND_TCP (UINT64_C(1) << 0)    /* ABI 4 */
#define SP_LL_CONNECT_TCP (UINT64_C(1) << 1) /* ABI 4 */

#define SP_LL_SCOPE_ABSTRACT_UNIX (UINT64_C(1) << 0) /* ABI 6 */
#define SP_LL_SCOPE_SIGNAL (UINT64_C(1) << 1)        /* ABI 6 */

#define SP_LL_CREATE_VERSION 1u
#define SP_LL_RULE_PATH_BENEATH 1

struct sp_ll_attr {
    uint64_t fs, net, scoped;
};

struct sp_ll_beneath {
    uint64_t allowed;
    int32_t fd;
} __attribute__((packed));

/* Rights by the words of policy/command.landlock. */
#define SP_LL_READ (SP_LL_READ_FILE | SP_LL_READ_DIR)
#define SP_LL_EXEC (SP_LL_READ | SP_LL_EXECUTE)
/* Never MAKE_CHAR and MAKE_BLOCK. */
#define SP_LL_WRITE                                                                                \
    (SP_LL_READ | SP_LL_WRITE_FILE | SP_LL_REMOVE_DIR | SP_LL_REMOVE_FILE | SP_LL_MAKE_DIR |       \
     SP_LL_MAKE_REG | SP_LL_MAKE_SOCK | SP_LL_MAKE_FIFO | SP_LL_MAKE_SYM | SP_LL_REFER |           \
     SP_LL_TRUNCATE)
#define SP_LL_DEVICE (SP_LL_READ | SP_LL_WRITE_FILE | SP_LL_TRUNCATE | SP_LL_IOCTL_DEV)

/* Of a line's word. */
uint64_t sp_landlock_rights(enum sp_path_word word);
/* One line of the text form: *word -1 for a line without a rule; path "" for the workspace. 0, or
 * -EINVAL with the sentence in e (NULL: not wanted), whose line stays. */
int sp_landlock_line(const char *line, size_t len, int *word, char path[4096],
                     struct sp_policy_error *e);

#endif
