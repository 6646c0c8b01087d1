/* SPDX-License-Identifier: Apache-2.0 */
#include "core/text/sentencepiece.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "core/text/guarded.hh"

struct tsr_sentencepiece {
  std::string name;
  sentencepiece::SentencePieceProcessor processor;
};

tsr_status tsr_sentencepiece_parse(const char *name, const void *bytes, size_t size, tsr_sentencepiece **model)
{
  *model = nullptr;
  tsr_status checked = tsr_sentencepiece_check(name, bytes, size);
  if (checked != TSR_OK) {
    return checked;
  }
  return tsr_sentencepiece_guarded(name, [&] {
    auto made = std::make_unique<tsr_sentencepiece>();
    made->name = name;
    tsr_status status = tsr_sentencepiece_status(
        name, made->processor.LoadFromSerializedProto(absl::string_view(static_cast<const char *>(bytes), size)));
    if (status == TSR_OK) {
      *model = made.release();
    }
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
  return tsr_sentencepiece_guarded(model->name.c_str(), [&] {
    std::vector<std::string> pieces;
    tsr_status status =
        tsr_sentencepiece_status(model->name.c_str(), model->processor.Encode(absl::string_view(text, size), &pieces));
    for (size_t i = 0; i < pieces.size() && status == TSR_OK; i++) {
      status = receive(user, pieces[i].data(), pieces[i].size());
    }
    return status;
  });
}

tsr_status tsr_sentencepiece_decode(const tsr_sentencepiece *model, const char *const *pieces, size_t n_pieces,
                                    char **text)
{
  *text = nullptr;
  return tsr_sentencepiece_guarded(model->name.c_str(), [&]() -> tsr_status {
    const std::vector<std::string> list(pieces, pieces + n_pieces);
    std::string decoded;
    tsr_status status = tsr_sentencepiece_status(model->name.c_str(), model->processor.Decode(list, &decoded));
    if (status != TSR_OK) {
      return status;
    }
    *text = static_cast<char *>(std::malloc(decoded.size() + 1));
    if (!*text) {
      throw std::bad_alloc();
    }
    std::memcpy(*text, decoded.c_str(), decoded.size() + 1);
    return TSR_OK;
  });
}

int32_t tsr_sentencepiece_count(const tsr_sentencepiece *model)
{
  return model->processor.GetPieceSize();
}

const char *tsr_sentencepiece_piece(const tsr_sentencepiece *model, int32_t id)
{
  return model->processor.IdToPiece(id).c_str();
}

static tsr_status encode_state(const void *state, const char *text, size_t size, tsr_piece_fn receive, void *user)
{
  return tsr_sentencepiece_encode(static_cast<const tsr_sentencepiece *>(state), text, size, receive, user);
}

static tsr_status decode_state(const void *state, const char *const *pieces, size_t n_pieces, char **text)
{
  return tsr_sentencepiece_decode(static_cast<const tsr_sentencepiece *>(state), pieces, n_pieces, text);
}

static void close_state(void *state)
{
  tsr_sentencepiece_close(static_cast<tsr_sentencepiece *>(state));
}

tsr_status tsr_sentencepiece_segmenter(const char *name, const void *bytes, size_t size, tsr_segmenter *segmenter)
{
  static const tsr_segmenter_methods methods = {encode_state, decode_state, close_state};
  tsr_sentencepiece *model = nullptr;
  tsr_status status = tsr_sentencepiece_parse(name, bytes, size, &model);
  if (status == TSR_OK) {
    *segmenter = {&methods, model};
  }
  return status;
}
