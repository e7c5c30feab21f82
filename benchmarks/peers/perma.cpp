// PerMA-Bench's own loops over addresses: its class IoOperation, from its headers.
#include "io_operation.hpp"

#include "peer.h"

namespace {
perma::PersistInstruction persisted(peer_access access) {
  switch (access) {
    case PEER_CACHE: return perma::PersistInstruction::Cache;
    case PEER_CACHEINV: return perma::PersistInstruction::CacheInvalidate;
    case PEER_NOCACHE: return perma::PersistInstruction::NoCache;
    default: return perma::PersistInstruction::None;
  }
}
}  // namespace

// What its headers name and its loops over addresses never call.
void perma::utils::crash_exit() { abort(); }

extern "C" void *perma_batch_new(char *const *addresses, size_t count, uint32_t access_bytes,
                                 peer_access access) {
  std::vector<char *> all(addresses, addresses + count);
  auto operation = access == PEER_READ ? perma::Operation::Read : perma::Operation::Write;
  return new perma::IoOperation(std::move(all), access_bytes, operation, persisted(access));
}

extern "C" void perma_batch_run(void *batch) { static_cast<perma::IoOperation *>(batch)->run(); }

extern "C" void perma_batch_free(void *batch) { delete static_cast<perma::IoOperation *>(batch); }
