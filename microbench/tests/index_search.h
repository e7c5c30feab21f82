/*
 * The smallest set of flushes and fences that still passes: included by index_cuts.h.
 *
 * One place of the source after another is left out, for good where no cut finds anything wrong,
 * until each of the places that remain is found when it is left out in addition: then no single one
 * can go. Another order may end at another such set, also at a smaller one. The result is cut again
 * in histories that the search has not seen: it has passed these cuts, which is no proof.
 *
 * A fence is redundant by control flow where on no executed path anything was stored or flushed
 * since the previous fence. Those come first.
 */
#pragma once

/* Every place, the redundant ones first, with its executions in one whole history. */
static bool survey(enum mb_discipline discipline)
{
    searching = true;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        if (!survives(seed, discipline, 4) || checks_failed())
            return false;
    for (size_t i = 0, redundant = 0; i < site_count; i++) {
        struct site site = sites[i];
        site.redundant = site.fence && site.idle == site.executed;
        site.executed = 0;
        sites[i] = sites[redundant];
        sites[redundant] = site;
        redundant += site.redundant;
    }
    run_history(0);
    return true;
}

/* False: the index does not pass as it is, or without what was left out. */
static bool search(enum mb_discipline discipline, uint64_t least)
{
    if (!survey(discipline))
        return false;
    for (size_t i = 0, unchanged = 0; unchanged < site_count; i = (i + 1) % site_count)
        unchanged = sites[i].left_out || is_found_without(&sites[i], discipline) ? unchanged + 1 : 0;
    *seen = (struct seen){0};
    return !is_found(discipline, SEEDS + 1, least);
}

static int search_named(const char *name, uint64_t least)
{
    enum mb_discipline discipline = 0;
    while (discipline < MB_DISCIPLINES && (!history.kind->disciplines[discipline] ||
                                           strcmp(mb_discipline_names[discipline], name) != 0))
        discipline++;
    if (discipline == MB_DISCIPLINES) {
        fprintf(stderr, "--search %s: no discipline of %s\n", name, history.kind->name);
        return 2;
    }
    bool passed = search(discipline, least);
    printf("{\"index\": \"%s\", \"discipline\": \"%s\", \"places\": [", history.kind->name, name);
    for (size_t i = 0; i < site_count; i++) {
        const struct site *site = &sites[i];
        const char *slash = strrchr(site->at.file, '/');
        printf("%s\n {\"file\": \"%s\", \"line\": %d, \"function\": \"%s\", \"kind\": \"%s\", "
               "\"executed\": %llu, \"redundant\": %s, \"left_out\": %s}",
               i ? "," : "", slash ? slash + 1 : site->at.file, site->at.line, site->at.function,
               site->fence ? "fence" : "flush", (unsigned long long)site->executed,
               site->redundant ? "true" : "false", site->left_out ? "true" : "false");
    }
    printf("],\n \"left_out\": %zu, \"needed\": %zu, \"passed\": %s, \"cuts\": %llu, "
           "\"memories\": %llu, \"sampled_cuts\": %llu}\n",
           left_out, site_count - left_out, passed ? "true" : "false",
           (unsigned long long)seen->cuts, (unsigned long long)seen->states,
           (unsigned long long)seen->sampled);
    return !passed;
}
