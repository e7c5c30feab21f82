#define mb_fast_fair fast_fair_here /* the program has it as well */
#define CUT_CHUNK CUT_BYTES /* no border is kept: a restart loses nothing */
#include "index_cuts.h"
#define MB_FAST_FAIR_NODE_BYTES 192 /* ten entries: splits come early */
#include "../indexes/fast_fair.c"

int main(int arguments, char **argument)
{
    return cut_index(&mb_fast_fair, NULL, "close_at", arguments, argument);
}
