/* One index, ours or an original program's, as ../../indexes.py measures it. */
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
void arm_open(size_t bytes);
void arm_insert(uint64_t key, uint64_t value);
uint64_t arm_read(uint64_t key); /* 0: not there */
#ifdef __cplusplus
}
#endif
