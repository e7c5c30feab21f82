/*
 * The bare loop that the native client is measured against: threads that read records of an
 * open RocksDB with the very calls of its back end, and nothing else. The database is opened
 * by the back end's own code, so that library and options are the same.
 *
 *   rocksdb_loop '{"connection": {…}, "threads": 2, "warm_up_s": 1, "seconds": 5,
 *                  "timed": false}' < keys
 *
 * Keys come on stdin, a line each, and are read in turn, each thread from its own place on.
 * "timed" reads the clock once an operation, as the client does, for the median. Prints
 * {"operations": n, "seconds": s, "cpu_ns": n, "median_ns": n}.
 */
#include "loadgen_library.h"


#define LONGEST_NS 65536
#define CACHE_LINE 64

struct key {
    char text[40];
    size_t length;
};

static struct lg_client client;
static struct key *keys;
static size_t key_count;
static bool timed;
static atomic_int phase; /* 0: warm up, 1: measured, 2: over */

struct reader {
    _Alignas(CACHE_LINE) pthread_t thread;
    size_t first;
    uint64_t operations, found_bytes, cpu_ns;
    uint32_t took[LONGEST_NS];
};

static void die(const char *words)
{
    fprintf(stderr, "%s\n", words);
    exit(1);
}

static void read_one(struct reader *reader, const struct key *key)
{
    const struct rocksdb_library *call = &client.call;
    char *words = NULL;
    size_t length;
    rocksdb_pinnableslice_t *found =
        call->get_pinned(client.db, client.reads, key->text, key->length, &words);
    if (words || !found)
        die(words ? words : "a key without a record");
    call->pinnableslice_value(found, &length);
    reader->found_bytes += length;
    call->pinnableslice_destroy(found);
}

static void *read_all(void *argument)
{
    struct reader *reader = argument;
    size_t at = reader->first;
    int now = 0;
    uint64_t before = tb_monotonic_ns();
    while (now < 2) {
        int next = atomic_load_explicit(&phase, memory_order_relaxed);
        if (next != now) {
            reader->cpu_ns = tb_thread_cpu_ns() - (next == 2 ? reader->cpu_ns : 0);
            now = next;
        }
        read_one(reader, &keys[at]);
        at = at + 1 < key_count ? at + 1 : 0;
        reader->operations += now == 1;
        if (timed) {
            uint64_t after = tb_monotonic_ns(), took = after - before;
            if (now == 1)
                reader->took[took < LONGEST_NS ? took : LONGEST_NS - 1]++;
            before = after;
        }
    }
    return NULL;
}

static void read_keys(void)
{
    size_t room = 0;
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        if (key_count == room)
            keys = realloc(keys, (room = room ? 2 * room : 1024) * sizeof *keys);
        struct key *key = &keys[key_count++];
        key->length = strcspn(line, "\n");
        if (key->length >= sizeof key->text)
            die("a key that is too long");
        memcpy(key->text, line, key->length + 1);
    }
    if (key_count == 0)
        die("no keys on stdin");
}

static uint64_t median_of(const struct reader *readers, size_t count)
{
    uint64_t all = 0, seen = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t ns = 0; ns < LONGEST_NS; ns++)
            all += readers[i].took[ns];
    for (size_t ns = 0; ns < LONGEST_NS; ns++) {
        for (size_t i = 0; i < count; i++)
            seen += readers[i].took[ns];
        if (2 * seen >= all)
            return all ? ns : 0;
    }
    return LONGEST_NS;
}

static void sleep_for(double seconds)
{
    struct timespec time = {.tv_sec = (time_t)seconds};
    time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
    nanosleep(&time, NULL);
}

int main(int count, char **arguments)
{
    struct tb_error error = {""};
    json_t *request = count == 2 ? json_loads(arguments[1], 0, NULL) : NULL;
    if (!request)
        die("wanted: one argument, JSON");
    read_keys();
    timed = json_is_true(json_object_get(request, "timed"));
    size_t threads = (size_t)json_integer_value(json_object_get(request, "threads"));
    if (!rocksdb_database_open(&client, json_object_get(request, "connection"), &error))
        die(error.text);
    struct reader *readers = aligned_alloc(CACHE_LINE, threads * sizeof *readers);
    memset(readers, 0, threads * sizeof *readers);
    for (size_t i = 0; i < threads; i++) {
        readers[i].first = key_count / threads * i;
        pthread_create(&readers[i].thread, NULL, read_all, &readers[i]);
    }
    sleep_for(json_number_value(json_object_get(request, "warm_up_s")));
    uint64_t began_ns = tb_monotonic_ns();
    atomic_store(&phase, 1);
    sleep_for(json_number_value(json_object_get(request, "seconds")));
    atomic_store(&phase, 2);
    uint64_t took_ns = tb_monotonic_ns() - began_ns;
    uint64_t operations = 0, cpu_ns = 0;
    for (size_t i = 0; i < threads; i++) {
        pthread_join(readers[i].thread, NULL);
        operations += readers[i].operations;
        cpu_ns += readers[i].cpu_ns;
    }
    printf("{\"operations\": %llu, \"seconds\": %.9f, \"cpu_ns\": %llu, \"median_ns\": %llu}\n",
           (unsigned long long)operations, (double)took_ns / 1e9, (unsigned long long)cpu_ns,
           (unsigned long long)median_of(readers, threads));
    rocksdb_database_close(&client);
    return 0;
}
