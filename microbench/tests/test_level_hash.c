#define mb_level_hash level_hash_here /* the program has it as well */
#include "index_cuts.h"
#include "../indexes/level_hash.c"

int main(int arguments, char **argument)
{
    return cut_index(&mb_level_hash, mixed, "", arguments, argument);
}
