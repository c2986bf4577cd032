/* check.c: `sallyport check`: the plan that a start of the seat or the box here would have, layer
 * by layer, for people or as JSON. Starts nothing and serves nobody. Trusts its arguments and
 * environment. */
#include "main/supervise.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void print_string(const char *s)
{
    putchar('"');
    for (; *s != '\0'; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < ' ' || c == 0x7f)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

static void print_member(const char *name, const char *value, const char *end)
{
    printf("\"%s\": ", name);
    if (value == NULL)
        printf("null");
    else
        print_string(value);
    printf("%s", end);
}

static void print_json(const struct sp_plan *plan, const struct sp_config *c, const char *refusal)
{
    printf("{\n  ");
    print_member("version", SP_VERSION, ",\n  ");
    printf("\"starts\": %s,\n  ", refusal == NULL ? "true" : "false");
    print_member("refusal", refusal, ",\n  ");
    print_member("mode", c->mode == SP_MODE_BOX ? "box" : "seat", ",\n  ");
    print_member(c->mode == SP_MODE_BOX ? "workspaces" : "workspace", c->workspace, ",\n  ");
    print_member("shell", c->shell, ",\n  ");
    if (c->mode == SP_MODE_BOX)
        printf("\"users\": {\"first\": %u, \"last\": %u, \"front\": %u, \"registry\": %u},\n  ",
               c->uid_min, c->uid_max, c->front_uid, c->registry_uid);
    else
        printf("\"users\": {\"commands\": %u, \"front\": %u},\n  ", c->command_uid, c->front_uid);
    printf("\"layers\": [");
    const char *between = "";
    for (int i = 0; i < SP_LAYER_COUNT && plan->layer[i].why[0] != '\0'; i++) {
        const struct sp_layer_state *l = &plan->layer[i];
        printf("%s\n    {", between);
        print_member("name", l->name, ", ");
        printf("\"active\": %s, \"required\": %s, ", l->active ? "true" : "false",
               l->required ? "true" : "false");
        print_member("why", l->why, ", ");
        print_member("fix", l->fix, "}");
        between = ",";
    }
    printf("\n  ]\n}\n");
}

static void print_table(const struct sp_plan *plan, const struct sp_config *c, bool starts)
{
    if (starts) {
        printf("%-14s %s\n", c->mode == SP_MODE_BOX ? "workspaces" : "workspace", c->workspace);
        printf("%-14s %s\n", "shell", c->shell);
        if (c->mode == SP_MODE_BOX)
            printf("%-14s identities %u to %u, front %u:%u, registry %u:%u\n", "users", c->uid_min,
                   c->uid_max, c->front_uid, c->front_gid, c->registry_uid, c->registry_gid);
        else if (c->switch_uid)
            printf("%-14s commands %u:%u, front %u:%u\n", "users", c->command_uid, c->command_gid,
                   c->front_uid, c->front_gid);
        else
            printf("%-14s all %u:%u\n", "users", c->command_uid, c->command_gid);
    }
    for (int i = 0; i < SP_LAYER_COUNT && plan->layer[i].why[0] != '\0'; i++) {
        const struct sp_layer_state *l = &plan->layer[i];
        printf("%-14s %-3s %s%s\n", l->name, l->active ? "on" : "off", l->why,
               l->active || !l->required ? "" : " [required]");
        if (l->fix != NULL)
            printf("%-14s     fix: %s\n", "", l->fix);
    }
}

int check_plan(struct super *s, enum sp_mode mode, bool json, char *err, size_t errlen)
{
    static struct sp_plan plan;
    int r = seat_prepare(s, mode, &plan, true, environ, err, errlen);
    s->cfg.mode = mode; /* refused early, it may not say so */
    if (json)
        print_json(&plan, &s->cfg, r == 0 ? NULL : err);
    else
        print_table(&plan, &s->cfg, r == 0);
    if (fflush(stdout) != 0)
        return 1;
    return r == 0 ? 0 : -1;
}
