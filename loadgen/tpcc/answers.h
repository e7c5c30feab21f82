/* What the server's answers to the five transactions may be, and what they commit. */
#ifndef LOADGEN_TPCC_ANSWERS_H
#define LOADGEN_TPCC_ANSWERS_H

#include "inputs.h"

/* LG_DONE, LG_ROLLED_BACK, or LG_WRONG with terminal->wrong. */
enum lg_status lg_tpcc_check(struct lg_terminal *terminal, const struct lg_result *result);

/*
 * The journal's line of a transaction that was validated as LG_DONE; none for those that only
 * read. By line: "N w d o_id c_id ol_cnt", "P w d c_w c_d c_id amount_cents",
 * "D w carrier o1,…,o10" (0: the district had no order to deliver).
 */
void lg_tpcc_journal(const struct lg_terminal *terminal, const struct lg_result *result,
                     struct tb_text *line);

#endif
