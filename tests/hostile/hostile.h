/* hostile.h: the daemon's twin with a front that was taken over. Everything else in it is the real
 * code: main, broker, cell, and what the front gives up before it serves. */
#ifndef SALLYPORT_TESTS_HOSTILE_H
#define SALLYPORT_TESTS_HOSTILE_H

#include "main/supervise.h"
#include "sallyport/proto.h"

#include <stdbool.h>
#include <stdint.h>

#define PATIENCE_MS 30000 /* for what has to come */

/* Every op there is. */
extern uint8_t hostile_ops[256];
extern int hostile_nops;

/* ---- stage.c: plays main and the front around a live broker and cell ---- */
struct stage {
    struct super s;
    bool box;             /* many workspaces; requests carry the key of one */
    struct sp_chan front; /* our end of the broker's socket */
    pid_t broker, cell;
    int broker_files, cell_files;
    unsigned breaches; /* that the broker told main of */
};
extern struct stage stage;
extern struct sp_frame hostile_frame;
extern struct sp_msg hostile_got;

bool stage_start(enum sp_mode mode);
void stage_end(void);
/* A front's place is taken by a new one; the old one's end stays open for as long as the caller
 * likes. */
bool front_new(void);
void front_close(void);
struct sp_msg make(uint8_t op, uint32_t id);
#define STAGE_KEYS 3
struct sp_slice stage_key(unsigned n); /* of the box's workspaces */
bool say(uint8_t op, uint32_t id);
bool say_msg(const struct sp_msg *m);
/* Bytes as they are, with any descriptors (still the caller's). False: the socket took no more. */
bool say_raw(const void *data, size_t len, const int *fds, int nfds);
/* Waits for the next message: 1, 0 nothing within ms, -1 the broker closed. Descriptors stay in
 * hostile_frame until the next call. */
int hear(int ms);
/* Until that op for that id; others are dropped. */
bool hear_op(uint8_t op, uint32_t id, int ms);
/* The broker let this front go, and told main. */
bool let_go(void);
void hear_main(void);
/* Whether it still serves this front. */
bool served(void);
void complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Descriptors to send: kind 0..7; -1 none. */
#define STRAY_KINDS 8
int stray(int kind);
const char *stray_name(int kind);

/* ---- sound.c ---- */
/* A front that behaves finds everything as it was: same broker, same cell, nothing leaked. */
bool healthy(const char *after);
int stage_files(pid_t pid); /* how many it has open, and what stands in such a folder besides */
pid_t stage_cell(void);     /* the broker's; 0 none */

/* ---- what is tried: each true if all went well ---- */
bool try_orders(void); /* orders.c: every message in every state, twice in a row */
bool try_lengths(void);
bool try_descriptors(void);
bool try_floods(void);                         /* floods.c: asking without reading */
bool try_noise(unsigned seed, unsigned count); /* noise.c */

int hostile_drive(int argc, char **argv);

#endif
