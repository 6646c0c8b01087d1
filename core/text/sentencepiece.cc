/* SPDX-License-Identifier: Apache-2.0 */
#include "core/text/sentencepiece.h"

#include <sentencepiece_processor.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

struct tsr_sentencepiece {
  std::string name;
  sentencepiece::SentencePieceProcessor processor;
};

namespace
{

/* Runs `body`, which returns a tsr_status, and turns what it throws into one. */
template <typename Body> tsr_status guarded(const char *name, Body body)
{
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "%s: out of host memory", name);
  } catch (const std::exception &error) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: SentencePiece: %s", name, error.what());
  } catch (...) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: SentencePiece failed without a message", name);
  }
}

tsr_status check(const char *name, const sentencepiece::util::Status &status)
{
  return status.ok() ? TSR_OK : tsr_fail(TSR_ERR_FORMAT, "%s: SentencePiece: %s", name, status.ToString().c_str());
}

} // namespace

tsr_status tsr_sentencepiece_parse(const char *name, const void *bytes, size_t size, tsr_sentencepiece **model)
{
  *model = nullptr;
  tsr_status checked = tsr_sentencepiece_check(name, bytes, size);
  if (checked != TSR_OK)
    return checked;
  return guarded(name, [&] {
    auto made = std::make_unique<tsr_sentencepiece>();
    made->name = name;
    tsr_status status =
        check(name, made->processor.LoadFromSerializedProto(absl::string_view(static_cast<const char *>(bytes), size)));
    if (status == TSR_OK)
      *model = made.release();
    return status;
  });
}

void tsr_sentencepiece_close(tsr_sentencepiece *model)
{
  delete model;
}

tsr_status tsr_sentencepiece_encode(const tsr_sentencepiece *model, const char *text, size_t size, tsr_piece_fn receive,
                                    void *user)
{
  return guarded(model->name.c_str(), [&] {
    std::vector<std::string> pieces;
    tsr_status status = check(model->name.c_str(), model->processor.Encode(absl::string_view(text, size), &pieces));
    for (size_t i = 0; i < pieces.size() && status == TSR_OK; i++)
      status = receive(user, pieces[i].data(), pieces[i].size());
    return status;
  });
}

tsr_status tsr_sentencepiece_decode(const tsr_sentencepiece *model, const char *const *pieces, size_t n_pieces,
                                    char **text)
{
  *text = nullptr;
  return guarded(model->name.c_str(), [&]() -> tsr_status {
    const std::vector<std::string> list(pieces, pieces + n_pieces);
    std::string decoded;
    tsr_status status = check(model->name.c_str(), model->processor.Decode(list, &decoded));
    if (status != TSR_OK)
      return status;
    *text = static_cast<char *>(std::malloc(decoded.size() + 1));
    if (!*text)
      throw std::bad_alloc();
    std::memcpy(*text, decoded.c_str(), decoded.size() + 1);
    return TSR_OK;
  });
}
