/* policy_tree.c: the search for a call's number, as few comparisons as are worth the trouble. Spans
 * are taken together where all have one answer but some that hold a single number: those are asked
 * for one by one, and among such groups the search halves. Trusts its caller. */
#include "policy_tree.h"

#define SINGLES 4u /* in a group: they are asked for in a row */
#define GROUPS_MAX 1024u

struct group {
    size_t first, n;
    size_t rest; /* the span whose answer all have but the singles */
};

struct tree {
    struct code *c;
    const struct span *span;
    size_t n;
    struct group group[GROUPS_MAX];
    size_t ngroups;
};

static bool single(const struct tree *t, size_t i)
{
    return i + 1 < t->n && t->span[i + 1].from - t->span[i].from == 1;
}

static bool alike(const struct span *a, const struct span *b)
{
    return a->block == b->block && (a->block ? a->at == b->at : a->action == b->action);
}

/* From span i on, with the answer of span `rest`, i or the next. */
static struct group group_from(const struct tree *t, size_t i, size_t rest)
{
    struct group g = {.first = i, .n = rest - i + 1, .rest = rest};
    size_t singles = rest - i;
    for (; i + g.n < t->n; g.n++) {
        if (alike(&t->span[i + g.n], &t->span[rest]))
            continue;
        if (!single(t, i + g.n) || singles == SINGLES)
            break;
        singles++;
    }
    return g;
}

static size_t goal(struct tree *t, size_t i)
{
    const struct span *s = &t->span[i];
    return s->block ? s->at : code_ret(t->c, s->action);
}

static size_t leaf(struct tree *t, const struct group *g)
{
    size_t at = goal(t, g->rest);
    for (size_t i = g->first + g->n; i-- > g->first;)
        if (!alike(&t->span[i], &t->span[g->rest])) {
            size_t yes = goal(t, i);
            at = code_branch(t->c, BPF_JEQ, t->span[i].from, yes, at);
        }
    return at;
}

static size_t search(struct tree *t, size_t lo, size_t hi) // NOLINT(misc-no-recursion): halves
{
    if (hi - lo == 1)
        return leaf(t, &t->group[lo]);
    size_t mid = lo + (hi - lo) / 2;
    size_t above = search(t, mid, hi), below = search(t, lo, mid);
    return code_branch(t->c, BPF_JGE, t->span[t->group[mid].first].from, above, below);
}

size_t code_tree(struct code *c, const struct span *spans, size_t n)
{
    struct tree t = {.c = c, .span = spans, .n = n};
    for (size_t i = 0; i < n && t.ngroups < GROUPS_MAX; i += t.group[t.ngroups++].n) {
        struct group g = group_from(&t, i, i);
        if (single(&t, i)) {
            struct group other = group_from(&t, i, i + 1);
            g = other.n > g.n ? other : g;
        }
        t.group[t.ngroups] = g;
    }
    return search(&t, 0, t.ngroups);
}
