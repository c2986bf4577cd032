/* inner_blob.S: the inner binary's bytes in this file, on pages of their own. inner_image.c uses
 * them. Trusts the build. */
#ifdef __CET__
#include <cet.h> /* marks this object as fit for it, too: one without the mark undoes that of all */
#endif
    .section .rodata.inner,"a",@progbits
    .balign 4096
    .globl sp_inner_begin, sp_inner_end
    .hidden sp_inner_begin, sp_inner_end
sp_inner_begin:
    .incbin SP_INNER
    .balign 4096
sp_inner_end:
    .section .note.GNU-stack,"",@progbits
