/* The parameters that a text stands for; shared by the tests of YCSB. */
#pragma once

#include "check.h"
#include "../ycsb/params.h"

/* Read and done with: the text of `update`, which would be the document's, is not used here. */
static struct lg_ycsb_params params_of(const char *text)
{
    struct tb_error error = {""};
    struct lg_ycsb_params params;
    json_t *given = json_loads(text, 0, NULL);

    CHECK(given != NULL);
    CHECK(lg_ycsb_params_read(&params, given, &error));
    CHECK_TEXT(error.text, "");
    json_decref(given);
    return params;
}
