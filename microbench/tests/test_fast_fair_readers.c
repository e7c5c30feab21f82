/*
 * FAST&FAIR's readers next to a writer, which takes no lock against them: a change is stopped after
 * any of its stores, a key is looked for, the change goes on at any of the reader's loads, and stops
 * again. What the reader finds must be there before, between or after the changes that it meets.
 */
#define mb_fast_fair fast_fair_here /* the program has it as well */
#include "check.h"
#include "../indexes/index.h"

#include <ucontext.h>

static void before_load(void);
#define mb_get(at) (before_load(), mb_get(at))
#define MB_FAST_FAIR_NODE_BYTES 192 /* ten entries: splits come early */
#include "../indexes/fast_fair.c"

enum { ARENA_BYTES = 16 * 1024, KEYS = 60, CHANGES = 400, SAMPLES = 120, STACK_BYTES = 128 * 1024,
       LOADS = 40, NEAR = 4, STORES = 30, ENDLESS = 100000 };

static _Alignas(64) char arena[ARENA_BYTES], kept[ARENA_BYTES];
static struct mb_index here;
static uint64_t values[KEYS]; /* 0: not there */

/* Two changes, one after the other. */
static struct writer {
    ucontext_t context, back;
    char stack[STACK_BYTES];
    struct planned {
        size_t key;
        uint64_t value; /* 0: it is removed */
    } planned[2];
    uint64_t stores, stop_at;
    int done;
} writer;

static struct {
    bool active;
    uint64_t loads, switch_at, more_stores;
} reader;

static uint64_t key_of(size_t number) { return number * 7 % KEYS + 1; }

/* The key that is so much larger: 7 * 43 is 1 modulo KEYS. */
static size_t next_to(size_t number, size_t distance) { return (number + 43 * distance) % KEYS; }

static void stored(void *to, const void *from, size_t bytes)
{
    uint64_t value;
    memcpy(&value, from, bytes);
    __atomic_store_n((uint64_t *)to, value, __ATOMIC_RELEASE);
    if (++writer.stores == writer.stop_at)
        swapcontext(&writer.context, &writer.back);
}

static void flushed(const void *at, size_t bytes)
{
}

static void fenced(void) {}

static void do_change(const struct planned *planned)
{
    uint64_t key = key_of(planned->key);
    bool done = planned->value ? insert(&here, key, planned->value) : take_out(&here, key);
    CHECK(done);
}

static void write_both(void)
{
    for (writer.done = 0; writer.done < 2; writer.done++)
        do_change(&writer.planned[writer.done]);
}

/* So many stores more; the end of the second change is the last. */
static void go_on(uint64_t stores)
{
    bool active = reader.active;
    if (writer.done == 2)
        return;
    reader.active = false;
    writer.stop_at = writer.stores + stores;
    swapcontext(&writer.back, &writer.context);
    reader.active = active;
}

static void before_load(void)
{
    if (reader.active && ++reader.loads == reader.switch_at)
        go_on(reader.more_stores);
    CHECK(reader.loads < ENDLESS);
    if (reader.loads >= ENDLESS)
        exit(1);
}

/* Of a key: after so many of the changes. */
static uint64_t value_after(size_t key, int changes)
{
    uint64_t value = values[key];
    for (int i = 0; i < changes; i++)
        if (writer.planned[i].key == key)
            value = writer.planned[i].value;
    return value;
}

static void meet(struct tb_random *random, uint64_t first_stores, size_t key)
{
    memcpy(arena, kept, ARENA_BYTES);
    getcontext(&writer.context);
    writer.context.uc_stack.ss_sp = writer.stack;
    writer.context.uc_stack.ss_size = STACK_BYTES;
    writer.context.uc_link = &writer.back;
    makecontext(&writer.context, write_both, 0);
    writer.stores = 0;
    writer.done = 0;
    go_on(first_stores);
    int first = writer.done;
    reader.loads = 0;
    reader.switch_at = (uint64_t)tb_random_between(random, 1, LOADS);
    reader.more_stores = (uint64_t)tb_random_between(random, 1, STORES);
    reader.active = true;
    uint64_t value = 0;
    look_up(&here, key_of(key), &value);
    reader.active = false;
    int last = writer.done < 2 ? writer.done + 1 : 2;
    bool right = false;
    for (int i = first; i <= last; i++)
        right |= value == value_after(key, i);
    CHECK_CASE(right, first_stores);
}

static struct planned plan(struct tb_random *random, uint64_t number)
{
    size_t key = tb_random_next(random) % KEYS;
    bool removes = value_after(key, 1) && tb_random_next(random) % 2;
    return (struct planned){key, removes ? 0 : number};
}

int main(void)
{
    static const struct mb_medium medium = {"stored", stored, flushed, fenced};
    static const struct mb_policy policy = {.medium = &medium};
    static struct mb_sharing sharing = {.threads = 2};
    struct tb_random random;
    tb_random_seed(&random, 1, 0);
    here = (struct mb_index){.arena = {.base = arena, .size_bytes = ARENA_BYTES},
                             .policy = &policy, .sharing = &sharing};
    CHECK(make(&here));
    writer.planned[0] = (struct planned){0, 1};
    for (uint64_t number = 2; number < CHANGES; number++) {
        writer.planned[1] = plan(&random, number);
        uint64_t next = here.arena.next;
        memcpy(kept, arena, ARENA_BYTES);
        for (uint64_t stores = 1; stores <= STORES; stores++)
            for (int sample = 0; sample < SAMPLES; sample++) {
                size_t distance = tb_random_next(&random) % (sample % 4 ? NEAR : KEYS);
                size_t key = next_to(writer.planned[0].key, distance);
                here.arena.next = next;
                meet(&random, stores, key);
            }
        memcpy(arena, kept, ARENA_BYTES);
        here.arena.next = next;
        writer.stop_at = 0;
        do_change(&writer.planned[0]);
        values[writer.planned[0].key] = writer.planned[0].value;
        writer.planned[0] = writer.planned[1];
    }
    return checks_failed();
}
