#define mb_woart woart_here /* the program has it as well */
#include "index_cuts.h"
#include "../indexes/woart.c"

int main(int arguments, char **argument)
{
    return cut_index(&mb_woart, NULL, "remove_child", arguments, argument);
}
