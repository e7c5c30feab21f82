/* Files that jobs call on: the blocks' own words, io_uring's rings, and wrong content. */
#include "check.h"
#include "../io_ring.h"
#include "../run.h"

enum { SIZE = 1 << 20, DEPTH = 4 };

static void check_block(const char *bytes, uint64_t offset)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    CHECK_CASE(word == mb_stamp(offset), offset);
}

TEST(test_blocks_that_begin_within_an_access_are_stamped)
{
    static char bytes[4 * MB_STAMPED_BYTES];
    static const uint64_t offsets[] = {0, 512, 4096, 4096 * 3 + 64, 8192 - 64};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        uint64_t to = MB_STAMPED_BYTES - offsets[i] % MB_STAMPED_BYTES;
        memset(bytes, 0, sizeof bytes);
        mb_stamp_all(bytes, offsets[i], sizeof bytes);
        if (to == MB_STAMPED_BYTES)
            check_block(bytes, offsets[i]);
        else
            CHECK(*bytes == 0);
        check_block(bytes + to % MB_STAMPED_BYTES, offsets[i] + to % MB_STAMPED_BYTES);
    }
    memset(bytes, 0, sizeof bytes);
    mb_stamp_all(bytes, 64, MB_STAMPED_BYTES - 64); /* no block begins in it */
    for (size_t i = 0; i < sizeof bytes; i++)
        CHECK(bytes[i] == 0);
}

static int unnamed_file(void)
{
    int fd = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    return fd;
}

/* As many as it has room for, round after round: the rings' counters turn over their ends. */
TEST(test_requests_of_a_ring_come_back_each_once)
{
    static char buffers[DEPTH][64];
    struct mb_ring ring;
    int fd = unnamed_file(), result;
    uint64_t id;
    bool open = mb_ring_open(&ring, DEPTH);
    CHECK(open || errno == EPERM || errno == ENOSYS); /* switched off here, as in containers */
    if (!open)
        return;
    for (uint64_t round = 0; round < 100; round++) {
        bool back[DEPTH] = {false};
        for (uint64_t i = 0; i < DEPTH; i++) {
            bool write = round % 2 == 0;
            memset(buffers[i], write ? (int)(round + i) : 0, sizeof buffers[i]);
            mb_ring_queue(&ring, &(struct mb_request){.write = write, .fd = fd, .bytes = 64,
                                                      .buffer = buffers[i], .offset = i * 64,
                                                      .id = i});
        }
        CHECK(mb_ring_submit(&ring, DEPTH));
        for (uint64_t i = 0; i < DEPTH; i++) {
            CHECK(mb_ring_take(&ring, &id, &result) && id < DEPTH && result == 64 && !back[id]);
            back[id % DEPTH] = true;
        }
        CHECK(!mb_ring_take(&ring, &id, &result));
        for (uint64_t i = 0; round % 2 && i < DEPTH; i++)
            CHECK_CASE(buffers[i][63] == (char)(round - 1 + i), round);
    }
    mb_ring_queue(&ring, &(struct mb_request){.fd = -1, .bytes = 64, .buffer = buffers[0]});
    CHECK(mb_ring_submit(&ring, 1) && mb_ring_take(&ring, &id, &result) && result == -EBADF);
    mb_ring_close(&ring);
    close(fd);
}

static json_t *spec_of(const char *operation)
{
    return json_pack(
        "{s:i, s:i, s:{s:{s:s, s:s, s:i}}, s:[{s:s, s:[{s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i}]}]}",
        "schema", 2, "seed", 1, "targets", "t", "kind", "file", "path", "/dev/shm", "size_bytes",
        SIZE, "measurements", "name", "m", "jobs", "name", "j", "kind", "file", "target", "t",
        "operation", operation, "pattern", "sequential", "direct", "no", "access_bytes", 4096,
        "operations", SIZE / 4096);
}

/* Overwrites a block before the job runs; does the job, or its check, say so? */
static bool detects(const char *operation, uint64_t wrong, struct tb_error *error)
{
    struct mb_spec spec;
    struct mb_repeat repeat;
    *error = (struct tb_error){""};
    CHECK(mb_spec_read(&spec, spec_of(operation), error));
    struct mb_job *job = spec.measurements->jobs;
    CHECK(mb_target_map(spec.targets, error) && !spec.targets->base);
    CHECK(job->kernel->prepare(job, error));
    CHECK(pwrite(spec.targets->fd, "wrong", 5, (off_t)wrong) == 5);
    bool right = mb_repeat_run(&repeat, spec.measurements, 0, error);
    mb_repeat_free(&repeat);
    mb_spec_free(&spec);
    return !right;
}

TEST(test_wrong_content_is_an_error)
{
    struct tb_error error;
    mb_cpu_find();
    mb_cpu_settle();
    CHECK(detects("read", 4096 * 100, &error));
    CHECK(strstr(error.text, "at byte 409600") != NULL);
    CHECK(!detects("read", 4096 * 100 + 8, &error)); /* not in the block's first word */
    CHECK_TEXT(error.text, "");
    CHECK(!detects("write", 4096 * 100, &error)); /* it is written again */
    CHECK_TEXT(error.text, "");
}

int main(void)
{
    return checks_failed();
}
