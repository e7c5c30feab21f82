/*
 * Prints the keys of records as YCSB's workload draws them, a line each: to be held
 * against what the official client draws.
 *
 *   ycsb_keys '{"recordcount": 1000, "requestdistribution": "zipfian"}' COUNT [SEED]
 *
 * With "lengths" for SEED: scan lengths in place of keys.
 */
#include "../ycsb/keys.h"

static int refuse(const char *words)
{
    fprintf(stderr, "ycsb_keys: %s\n", words);
    return 2;
}

int main(int argc, char **argv)
{
    struct tb_error error = {""};
    struct lg_ycsb_params params;
    struct lg_ycsb_keys keys;
    struct lg_ycsb_chooser chooser;
    struct tb_random random;
    json_t *given = argc >= 3 ? json_loads(argv[1], 0, NULL) : NULL;
    bool lengths = argc > 3 && strcmp(argv[3], "lengths") == 0;

    if (!given)
        return refuse("usage: ycsb_keys '{\"recordcount\": N, …}' COUNT [SEED | lengths]");
    if (!lg_ycsb_params_read(&params, given, &error))
        return refuse(error.text);

    struct lg_ycsb_inserts *inserts = lg_ycsb_inserts_open(NULL, &error);

    lg_ycsb_keys_open(&keys, &params, inserts);
    lg_ycsb_chooser_open(&chooser, &keys);
    tb_random_seed(&random, argc > 3 ? strtoull(argv[3], NULL, 10) : 0, 0);
    for (long long left = atoll(argv[2]); left > 0; left--) {
        char key[YCSB_KEY_BYTES];
        size_t length;

        if (lengths) {
            printf("%lld\n", (long long)lg_ycsb_scan_length(&keys, &random));
            continue;
        }
        length = lg_ycsb_key(&params, lg_ycsb_choose(&keys, &chooser, &random), key);
        printf("%.*s\n", (int)length, key);
    }
    lg_ycsb_inserts_close(inserts);
    json_decref(given);
    return 0;
}
