/*
 * A persistent index under a workload of YCSB (BENTŌ, section 3): which flush and fence it takes,
 * and how often.
 *
 *   {"name": "level", "kind": "index", "target": "t0", "threads": 1, "index": "level_hash",
 *    "workload": "a", "bytes_per_record": 256, "flush": "clwb", "fence": "sfence",
 *    "discipline": "designed", "keys": "zipf", "sample_every": 0}
 *
 * Workloads: a (half reads, half updates), b (95 % reads, 5 % updates), c (reads), f (half reads,
 * half updates of what was just read), all by Zipf's law or with `keys` uniform, d (95 % reads of what
 * the thread inserted last, 5 % inserts), insert (new keys alone). An index whose paper has no update inserts a
 * duplicate: a key next to it, since keys are unique here. The threads of a partition share an
 * index where its paper has them do so; otherwise each thread has one of its own in its part of the
 * range. The range's size says how many records are loaded for every repeat; of `insert` the
 * share `loaded_share` of them, and the others are inserted.
 * Operations that insert end at the latest when half as many more are there. The next operations
 * are drawn before they are done, and that time is left out.
 *
 * After a repeat the threads of a shared index update records of their own, all at once: none may
 * be lost. Some more operations are counted: flushes, fences, and flushes of a line in which
 * nothing was stored since its last one (`redundant`). Then every index is recovered as after a
 * restart and must have each record, with a value that was written for it.
 *
 * With "index": "library", "library": "/path/of.so" it is another program's (indexes/library.c), in
 * memory that the library allocates, or in its `pool_path`: no restart, no counts. Threads
 * share it if it declares that they may. Its keys have `key_bytes`, its values `value_bytes`; the
 * indexes above have words.
 */
#include "../indexes/checked.h"
#include "durable_job.h"
#include "target.h"

#include <sys/prctl.h>
#include <sys/stat.h>

enum { CHUNK_BYTES = 64 * 1024, WORD_BYTES = 8, COUNTED = 10000, UPDATED = 64,
       LEAST_BYTES = 192, LEAST_RECORDS = 64, STEP_NS = 200000 };
enum workload { WORKLOAD_A, WORKLOAD_B, WORKLOAD_C, WORKLOAD_F, WORKLOAD_D, WORKLOAD_INSERT,
                WORKLOADS };

static const char *const workload_names[] = {"a", "b", "c", "f", "d", "insert", NULL};
static const char *const index_names[] = {"level_hash", "fast_fair", "woart", "library", NULL};
static const struct mb_index_kind *const index_kinds[] = {&mb_level_hash, &mb_fast_fair,
                                                          &mb_woart, &mb_library_index};
enum distribution { ZIPF, UNIFORM };
static const char *const distribution_names[] = {"zipf", "uniform", NULL};
/* What of 100 operations changes something. */
static const unsigned changing[WORKLOADS] = {50, 5, 0, 50, 5, 100};

struct indexed {
    struct mb_durable durable;
    int index, workload, distribution;
    const struct mb_index_kind *kind; /* of `index` */
    struct mb_library library;
    struct mb_policy policy;
    int64_t bytes_per_record, key_bytes, value_bytes;
    double loaded_share;
    uint64_t records; /* of a thread: at the start, or of `insert` at the end */
    uint64_t loaded;  /* of them at the start */
    uint32_t users_each; /* of an index */
    struct tb_zipfian zipfian; /* over an index's records */
    struct user *users; /* by thread, from begin to check */
};

#define WORD(key, member, words, fallback) \
    TB_WORD_KEY(struct indexed, key, member, words, 0, fallback)
static const struct tb_param params[] = {
    WORD("index", index, index_names, -1),
    WORD("workload", workload, workload_names, -1),
    WORD("fence", policy.fence, mb_fence_names, MB_SFENCE),
    WORD("added_fence", policy.added_fence, mb_fence_names, MB_NO_FENCE),
    WORD("discipline", policy.discipline, mb_discipline_names, MB_DESIGNED),
    WORD("keys", distribution, distribution_names, ZIPF),
    TB_INTEGER_KEY(struct indexed, "key_bytes", key_bytes, WORD_BYTES, MB_LIBRARY_MOST_BYTES,
                   WORD_BYTES),
    TB_INTEGER_KEY(struct indexed, "value_bytes", value_bytes, WORD_BYTES, MB_LIBRARY_MOST_BYTES,
                   WORD_BYTES),
    TB_NUMBER_KEY(struct indexed, "loaded_share", loaded_share, 0, 0.99, 0),
    TB_INTEGER_KEY(struct indexed, "bytes_per_record", bytes_per_record, LEAST_BYTES,
                   INT64_C(1) << 30, 256),
    MB_DURABLE_KEYS(struct indexed, durable, MB_MEDIUM_CLWB),
    TB_OTHER_KEY("library"),
    {0},
};
#undef WORD

/* A thread, and the index that it uses. */
struct user {
    struct mb_index *index, own; /* the first of its users has it */
    uint32_t place;              /* among them */
    struct tb_zipfian latest;
    char pool_path[PATH_MAX];   /* of a library's index in a directory */
    uint64_t records;           /* of this user there now: its numbers 0 … records - 1 */
    uint64_t writes;            /* so far; a value's upper half */
    uint64_t until_sample;
    bool warm;
    struct request {
        uint64_t key;
        bool changes;
    } *requests; /* drawn */
    uint64_t room;
    uint64_t counted_changes;
    struct mb_flush_counts counted;
};

/* ---- records ---- */

static uint64_t key_of(uint64_t number)
{
    uint64_t key = tb_fnv(number);
    return key ? key : 1;
}

/* Of a user's record: those of an index's users alternate. */
static uint64_t number_of(const struct indexed *indexed, const struct user *user, uint64_t record)
{
    return record * indexed->users_each + user->place;
}

static bool is_library(const struct indexed *indexed)
{
    return indexed->kind == &mb_library_index;
}

static uint64_t record_bytes(const struct indexed *indexed)
{
    return (uint64_t)(indexed->key_bytes + indexed->value_bytes);
}

/* New records; otherwise changes are updates. */
static inline bool inserts(const struct indexed *indexed)
{
    return indexed->workload >= WORKLOAD_D;
}

static inline bool grows(const struct indexed *indexed)
{
    return inserts(indexed) || (indexed->kind->adds && changing[indexed->workload]);
}

static bool put_in(const struct indexed *indexed, struct user *user, uint64_t key)
{
    bool room = indexed->kind->insert(user->index, key, mb_value_of(key, ++user->writes));
    user->records += room;
    return room;
}

/* ---- the job ---- */

static bool fits(const struct mb_job *job, struct tb_error *error)
{
    const struct indexed *indexed = job->params;
    if (!indexed->kind->disciplines[indexed->policy.discipline])
        return tb_fail(error, "discipline: %s is as designed with %s",
                       mb_discipline_names[indexed->policy.discipline], indexed->kind->name);
    bool has_fences = indexed->policy.discipline == MB_FF || indexed->policy.discipline == MB_SFF;
    if (indexed->policy.added_fence != MB_NO_FENCE && has_fences)
        return tb_fail(error, "added_fence: %s has a fence after each flush",
                       mb_discipline_names[indexed->policy.discipline]);
    if (indexed->distribution == UNIFORM && inserts(indexed))
        return tb_fail(error, "keys: workload %s has its own order",
                       workload_names[indexed->workload]);
    if (indexed->loaded_share > 0 && indexed->workload != WORKLOAD_INSERT)
        return tb_fail(error, "loaded_share: workload %s loads all records",
                       workload_names[indexed->workload]);
    if (!is_library(indexed) && record_bytes(indexed) != 2 * WORD_BYTES)
        return tb_fail(error, "key_bytes, value_bytes: %s has words (%d)", indexed->kind->name,
                       WORD_BYTES);
    if (record_bytes(indexed) > (uint64_t)indexed->bytes_per_record)
        return tb_fail(error, "bytes_per_record: %" PRId64 " is less than a key and a value, %" PRIu64,
                       indexed->bytes_per_record, record_bytes(indexed));
    if (indexed->records < LEAST_RECORDS)
        return tb_fail(error, "range_bytes: each thread has room for %" PRIu64 " records; it needs "
                              "%d", indexed->records, LEAST_RECORDS);
    if (indexed->durable.flush == MB_MEDIUM_NTSTORE)
        return tb_fail(error, "flush: an index takes clwb, clflushopt, clflush or none");
    return true;
}

/* Ends the job before an index is full. */
static void limit(struct mb_job *job)
{
    const struct indexed *indexed = job->params;
    uint64_t more = indexed->workload == WORKLOAD_INSERT ? indexed->records - indexed->loaded
                                                         : indexed->records / 2;
    if (!grows(indexed))
        return;
    uint64_t most = more * 100 / changing[indexed->workload] * job->threads;
    if (job->operations == 0 || job->operations > most)
        job->operations = most;
}

/* Last of all: loading runs its code. Which flushes there are is the library's. */
static bool load(struct mb_job *job, struct tb_error *error)
{
    struct indexed *indexed = job->params;
    const char *path = json_string_value(json_object_get(job->given, "library"));
    if (!path || json_object_get(job->given, "flush") || json_object_get(job->given, "fence"))
        return tb_fail(error, "library: set its path, and neither flush nor fence");
    struct stat found;
    bool own_memory = job->target->kind == MB_DRAM && job->target->pages == MB_BASE;
    bool own_file = job->target->kind == MB_FILE && stat(job->target->path, &found) == 0 &&
                    S_ISDIR(found.st_mode);
    if (!own_memory && !own_file)
        return tb_fail(error, "target: a library allocates by itself: measure it in a node's "
                              "memory (kind dram, base pages) or in a directory");
    indexed->durable.flush = MB_MEDIUM_NONE;
    indexed->library.key_bytes = (uint32_t)indexed->key_bytes;
    indexed->library.value_bytes = (uint32_t)indexed->value_bytes;
    return mb_library_load(path, &indexed->library, error);
}

static bool validate(struct mb_job *job, struct tb_error *error)
{
    struct indexed *indexed = job->params;
    indexed->kind = index_kinds[indexed->index];
    if (!is_library(indexed) && json_object_get(job->given, "library"))
        return tb_fail(error, "library: set index to library, too");
    if (is_library(indexed) ? !load(job, error) : !mb_durable_fits(job, error))
        return false;
    indexed->policy.flush = (enum mb_flush)indexed->durable.flush;
    indexed->records = mb_thread_bytes(job) / (uint64_t)indexed->bytes_per_record;
    indexed->loaded = indexed->workload == WORKLOAD_INSERT
                          ? (uint64_t)((double)indexed->records * indexed->loaded_share)
                          : indexed->records;
    bool shares = indexed->kind->shares || indexed->library.shares;
    indexed->users_each = shares ? job->threads / job->partitions : 1;
    indexed->users = tb_allocate(job->threads, sizeof *indexed->users);
    if (!fits(job, error))
        return false;
    tb_zipfian_open_scrambled(&indexed->zipfian);
    limit(job);
    return true;
}

static void discard(const struct indexed *indexed, struct user *user)
{
    if (user->own.tree)
        indexed->kind->close(&user->own);
    user->own.tree = NULL;
    free(user->own.sharing);
    user->own.sharing = NULL;
}

static void release(struct mb_job *job)
{
    struct indexed *indexed = job->params;
    for (uint32_t i = 0; indexed->users && i < job->threads; i++) /* what an error left */
        discard(indexed, &indexed->users[i]);
    free(indexed->users);
}

static struct user *user_of(const struct mb_thread *thread)
{
    const struct indexed *indexed = thread->job->params;
    return &indexed->users[thread->index];
}

static void full(struct mb_thread *thread)
{
    uint64_t records = user_of(thread)->records;
    if (!is_library(thread->job->params))
        tb_fail(&thread->error, "range_bytes: %" PRIu64 " records fill it", records);
    else if (records == 0)
        tb_fail(&thread->error, "library: it takes no record: is it of another tree_api.hpp?");
    else
        tb_fail(&thread->error, "library: %" PRIu64 " records fill it", records);
}

/* The node where the thread will allocate. */
static bool allocate_there(struct mb_thread *thread)
{
    const struct mb_target *target = thread->job->target;
    if (target->kind != MB_DRAM)
        return true;
    return (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0 || /* base pages, as the target's */
            tb_fail(&thread->error, "target: %s", strerror(errno))) &&
           mb_target_allocate_there(target, &thread->error);
}

/* A pool of its own in the target's directory. */
static bool place_library(struct mb_thread *thread, struct user *user)
{
    const struct mb_target *target = thread->job->target;
    if (target->kind == MB_DRAM)
        return true;
    int length = snprintf(user->pool_path, sizeof user->pool_path, "%s/index-%" PRIu32,
                          target->path, thread->job->first_thread + thread->index);
    user->own.pool_path = user->pool_path;
    if (length >= (int)sizeof user->pool_path)
        return tb_fail(&thread->error, "target: its path is too long");
    struct stat found;
    return lstat(user->pool_path, &found) != 0 ||
           tb_fail(&thread->error, "target: %s is there already", user->pool_path);
}

/* By the first of its users, while the others wait. */
static void load_index(struct mb_thread *thread, struct user *user, uint64_t records)
{
    static const struct mb_policy quick = {.flush = MB_NO_FLUSH, .fence = MB_NO_FENCE};
    const struct indexed *indexed = thread->job->params;
    uint64_t size = mb_thread_bytes(thread->job);
    struct mb_index *index = &user->own;
    *index = (struct mb_index){.arena = {.base = mb_thread_base(thread->job, thread->index),
                                         .size_bytes = size * indexed->users_each,
                                         .chunk_bytes = CHUNK_BYTES},
                               .policy = &quick,
                               .library = &indexed->library,
                               .threads = indexed->users_each};
    if (is_library(indexed) && !place_library(thread, user))
        return;
    bool room = indexed->kind->open(index);
    uint64_t loaded = 0;
    for (; room && loaded < records * indexed->users_each; loaded += room)
        room = indexed->kind->insert(index, key_of(loaded), mb_value_of(key_of(loaded), 1));
    if (!room) {
        user->records = loaded / indexed->users_each;
        full(thread);
    }
    if (indexed->users_each > 1) {
        index->sharing = tb_allocate(1, sizeof *index->sharing);
        index->sharing->threads = indexed->users_each;
    }
    index->policy = &indexed->policy;
}

static void begin(struct mb_thread *thread)
{
    const struct indexed *indexed = thread->job->params;
    struct user *user = user_of(thread);
    uint32_t place = thread->place % indexed->users_each;
    uint64_t records = indexed->loaded;
    *user = (struct user){.index = &indexed->users[thread->index - place].own,
                          .place = place,
                          .records = records,
                          .writes = 1,
                          .until_sample = (uint64_t)indexed->durable.sampler.every};
    if (is_library(indexed) && !allocate_there(thread))
        return;
    if (place == 0)
        load_index(thread, user, records);
    if (indexed->workload == WORKLOAD_D)
        tb_zipfian_open(&user->latest, 0, (int64_t)records - 1);
}

/* ---- operations ---- */

static uint64_t draw_number(const struct indexed *indexed, const struct user *user,
                            uint64_t there, struct tb_random *random)
{
    if (indexed->distribution == UNIFORM)
        return tb_random_next(random) % (there * indexed->users_each);
    double u = 1.0 - tb_random_fraction(random);
    if (indexed->workload == WORKLOAD_D) { /* a distance from the last one */
        int64_t distance = tb_zipfian_at(&user->latest, user->latest.items, u);
        return number_of(indexed, user, there - 1 - (uint64_t)distance % there);
    }
    int64_t rank = tb_zipfian_at(&indexed->zipfian, indexed->zipfian.items, u);
    return tb_fnv((uint64_t)rank) % (there * indexed->users_each);
}

static void draw(const struct indexed *indexed, struct user *user, struct tb_random *random,
                 uint64_t operations, bool change)
{
    if (user->room < operations) {
        free(user->requests);
        user->requests = tb_allocate(operations, sizeof *user->requests);
        user->room = operations;
    }
    uint64_t there = user->records;
    for (uint64_t i = 0; i < operations; i++) {
        struct request *request = &user->requests[i];
        request->changes =
            change && tb_random_next(random) % 100 < changing[indexed->workload];
        bool is_new = request->changes && inserts(indexed);
        request->key = key_of(is_new ? number_of(indexed, user, there)
                                     : draw_number(indexed, user, there, random));
        there += is_new;
    }
}

static inline bool add_duplicate(const struct indexed *indexed, struct user *user, uint64_t key)
{
    uint64_t distance = ++user->writes * indexed->users_each + user->place;
    key += key < MB_KEY_MOST / 2 ? distance : -distance;
    return indexed->kind->insert(user->index, key, mb_value_of(key, user->writes));
}

static inline bool do_one(const struct indexed *indexed, struct user *user,
                          const struct request *request)
{
    uint64_t key = request->key;
    if (!request->changes)
        return mb_finds(indexed->kind, user->index, key);
    if (inserts(indexed))
        return put_in(indexed, user, key);
    if (indexed->workload == WORKLOAD_F && !mb_finds(indexed->kind, user->index, key))
        return false;
    return indexed->kind->adds
               ? add_duplicate(indexed, user, key)
               : indexed->kind->update(user->index, key, mb_value_of(key, ++user->writes));
}

static void failed(struct mb_thread *thread, const struct request *request)
{
    const struct indexed *indexed = thread->job->params;
    bool added = request->changes && grows(indexed);
    if (added &&
        (inserts(indexed) || mb_finds(indexed->kind, user_of(thread)->index, request->key)))
        full(thread);
    else
        tb_fail(&thread->error, "%s lost a record", indexed->kind->name);
}

static void work(struct mb_thread *thread, uint64_t operations)
{
    const struct indexed *indexed = thread->job->params;
    struct user *user = user_of(thread);
    uint64_t drawing_ns = tb_monotonic_ns(), writes = user->writes, i = 0;
    thread->done.operations += operations;
    if (*thread->error.text)
        return;
    user->warm |= thread->recording;
    bool changes = user->warm || !grows(indexed); /* there is no room for a warm-up's */
    if (!changes && indexed->workload == WORKLOAD_INSERT) {
        nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
        return;
    }
    draw(indexed, user, &thread->random, operations, changes);
    thread->done.excluded_ns += tb_monotonic_ns() - drawing_ns;
    for (bool done = true; done && i < operations; i++) {
        bool timed = mb_sample_due(&indexed->durable.sampler, &user->until_sample);
        uint64_t from = timed ? mb_clock_begin() : 0;
        done = do_one(indexed, user, &user->requests[i]);
        if (timed)
            mb_sample_end(thread, from);
        if (!done)
            failed(thread, &user->requests[i]);
    }
    writes = user->writes - writes;
    thread->done.written_bytes += writes * record_bytes(indexed);
    bool reads_all = indexed->workload == WORKLOAD_F;
    thread->done.read_bytes += (reads_all ? operations : operations - writes) *
                               record_bytes(indexed);
}

/* ---- afterwards: counts of flushes, and a restart ---- */

static void free_requests(struct user *user)
{
    free(user->requests);
    user->requests = NULL;
    user->room = 0;
}

/* By one thread. */
static void count(const struct indexed *indexed, struct user *user, struct tb_random *random)
{
    struct mb_policy policy = mb_counting(&indexed->policy, &user->counted);
    uint64_t writes = user->writes;
    bool done = true;
    user->index->policy = &policy;
    draw(indexed, user, random, COUNTED, true);
    for (uint64_t i = 0; done && i < COUNTED; i++)
        done = do_one(indexed, user, &user->requests[i]);
    user->counted_changes = user->writes - writes;
    user->index->policy = &indexed->policy;
    free_requests(user);
}

static void end(struct mb_thread *thread) { free_requests(user_of(thread)); }

/* Does the library's pool hold the records, or are they elsewhere? */
static bool holds(const struct indexed *indexed, const struct user *user, struct tb_error *error)
{
    if (!user->own.pool_path)
        return true;
    uint64_t bytes = mb_library_pool_bytes(user->pool_path);
    uint64_t least = user->records * record_bytes(indexed);
    return bytes >= least ||
           tb_fail(error, "library: %" PRIu64 " bytes are in its pool_path, the records have %"
                          PRIu64 ": it keeps them elsewhere", bytes, least);
}

static bool has_records(const struct indexed *indexed, const struct mb_index *index,
                        const struct user *user)
{
    for (uint64_t record = 0; record < user->records; record++)
        if (!mb_finds(indexed->kind, index, key_of(number_of(indexed, user, record))))
            return false;
    return true;
}

/* Of records of its own, by each user at the same time. */
static bool keeps_updates(const struct indexed *indexed, struct user *users)
{
    uint64_t each = users[0].records < UPDATED ? users[0].records : UPDATED;
    for (uint32_t i = 1; i < indexed->users_each; i++)
        each = users[i].records < each ? users[i].records : each;
    uint64_t *keys = tb_allocate(indexed->users_each * each + 1, sizeof *keys);
    for (uint64_t i = 0; i < indexed->users_each * each; i++)
        keys[i] = key_of(number_of(indexed, &users[i / each], i % each));
    bool kept = mb_keeps_updates(indexed->kind, users[0].index, keys, indexed->users_each, each);
    free(keys);
    return kept;
}

static bool check(const struct mb_job *job, struct tb_error *error)
{
    const struct indexed *indexed = job->params;
    for (uint32_t i = 0; i < job->threads; i += indexed->users_each) {
        struct user *users = &indexed->users[i];
        struct tb_random random;
        if (indexed->users_each > 1 && !keeps_updates(indexed, users))
            return tb_fail(error, "%s lost an update of a thread, while others updated",
                           indexed->kind->name);
        tb_random_seed(&random, job->seed, i);
        for (uint32_t j = 0; j < indexed->users_each && !is_library(indexed); j++)
            count(indexed, &users[j], &random);
        struct mb_index index = users[0].own;
        index.sharing = NULL;
        bool right = indexed->kind->recover(&index);
        for (uint32_t j = 0; right && j < indexed->users_each; j++)
            right = has_records(indexed, &index, &users[j]);
        if (!right)
            return tb_fail(error, "after recovery %s of thread %" PRIu32 " lacks a record",
                           indexed->kind->name, i);
        bool there = holds(indexed, users, error);
        discard(indexed, users);
        if (!there)
            return false;
    }
    return true;
}

static void report(const struct mb_job *job, json_t *facts)
{
    const struct indexed *indexed = job->params;
    struct mb_flush_counts sum = {0};
    uint64_t records = 0, changes = 0;
    for (uint32_t i = 0; i < job->threads; i++) {
        const struct user *user = &indexed->users[i];
        changes += user->counted_changes;
        sum.flushes += user->counted.flushes;
        sum.fences += user->counted.fences;
        sum.redundant += user->counted.redundant;
        records += user->records;
    }
    json_object_set_new(facts, "records", json_integer((json_int_t)records));
    json_object_set_new(facts, "loaded_records",
                        json_integer((json_int_t)(indexed->loaded * job->threads)));
    json_object_set_new(facts, "indexes", tb_integer(job->threads / indexed->users_each));
    if (is_library(indexed)) {
        mb_sampler_report(&indexed->durable.sampler, facts);
        return;
    }
    mb_durable_report(job, facts);
    if (changes == 0)
        return;
    double each = (double)changes;
    json_object_set_new(facts, "flushes_per_write", json_real((double)sum.flushes / each));
    json_object_set_new(facts, "fences_per_write", json_real((double)sum.fences / each));
    json_object_set_new(facts, "redundant_flushes_per_write",
                        json_real((double)sum.redundant / each));
}

static bool persists(const struct mb_job *job, struct mb_persist *persist)
{
    const struct indexed *indexed = job->params;
    if (is_library(indexed) && job->target->kind == MB_FILE)
        return false; /* not known */
    *persist = (struct mb_persist){.flush = indexed->policy.flush, .fence = indexed->policy.fence};
    return true;
}

const struct mb_kernel mb_index = {
    .name = "index",
    .params = params,
    .params_bytes = sizeof(struct indexed),
    .has_latency = true,
    .validate = validate,
    .release = release,
    .prepare = mb_durable_prepare,
    .begin = begin,
    .work = work,
    .end = end,
    .check = check,
    .report = report,
    .persists = persists,
};
