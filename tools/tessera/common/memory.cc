/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/common/memory.h"

#include <jansson.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>

extern "C" {
#include "tools/tessera/common/message.h"
}

namespace
{

/* What was printed is kept. Nothing is unwound: libraries would do that wrongly. */
[[noreturn]] void end()
{
  std::fflush(stdout);
  _exit(tsr_cli_no_memory());
}

void *allocate(size_t size)
{
  void *memory = std::malloc(size);
  if (!memory) {
    end();
  }
  return memory;
}

} // namespace

extern "C" void tsr_cli_memory_init(void)
{
  std::set_new_handler(end);
  json_set_alloc_funcs(allocate, std::free);
}
