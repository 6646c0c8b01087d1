/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/commands/vocab_train.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <unordered_map>

namespace
{

/* Sums of floats depend on how the work is cut, so it is always cut alike. */
constexpr int n_threads = 8;
constexpr unsigned sample_seed = 1;

/* The sentences that are not empty. */
class sentences final : public sentencepiece::SentenceIterator
{
public:
  sentences(tsr_vocab_sentence_fn next, void *user) : next_(next), user_(user)
  {
    Next();
  }
  bool done() const override
  {
    return end_ || failure_ != TSR_OK;
  }
  void Next() override
  {
    const char *text = nullptr;
    size_t size = 0;
    do {
      failure_ = next_(user_, &text, &size, &end_);
    } while (!done() && size == 0);
    if (!done()) {
      value_.assign(text, size);
    }
  }
  const std::string &value() const override
  {
    return value_;
  }
  sentencepiece::util::Status status() const override
  {
    return sentencepiece::util::Status(); /* the failure is told by itself */
  }
  tsr_status failure() const
  {
    return failure_;
  }

private:
  tsr_vocab_sentence_fn next_;
  void *user_;
  std::string value_;
  int32_t end_ = 0;
  tsr_status failure_ = TSR_OK;
};

std::unordered_map<std::string, std::string> arguments(const tsr_vocab_options *options)
{
  char coverage[32];
  std::snprintf(coverage, sizeof coverage, "%.9g", options->coverage);
  return {
      {"model_type", options->model},
      {"vocab_size", std::to_string(options->size)},
      {"character_coverage", coverage},
      {"byte_fallback", options->byte_fallback ? "true" : "false"},
      {"input_sentence_size", std::to_string(options->input_size)},
      {"eos_id", "0"},
      {"unk_id", "1"},
      {"bos_id", "-1"},
      {"pad_id", "-1"},
      {"num_threads", std::to_string(n_threads)},
      {"minloglevel", options->verbose ? "0" : "3"},
  };
}

/* What SentencePiece says, without the place in its source that it says it from: "Internal: FILE(LINE) [CHECK] ...". */
std::string reason(const sentencepiece::util::Status &status)
{
  const std::string text = status.ToString();
  const size_t place = text.rfind("] ");
  return place == std::string::npos || place + 2 == text.size() ? text : text.substr(place + 2);
}

tsr_status copy_out(const std::string &model, char **bytes, size_t *size)
{
  *bytes = static_cast<char *>(std::malloc(model.size() + 1));
  if (!*bytes) {
    throw std::bad_alloc();
  }
  std::memcpy(*bytes, model.data(), model.size());
  *size = model.size();
  return TSR_OK;
}

/* Runs `body`, which returns a tsr_status: what SentencePiece throws becomes one, too. */
template <typename Body> tsr_status guarded(const char *name, Body body)
{
  try {
    return body();
  } catch (const std::bad_alloc &) {
    return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "%s: out of host memory", name);
  } catch (const std::exception &error) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: SentencePiece: %s", name, error.what());
  }
}

} // namespace

tsr_status tsr_vocab_train(const char *name, const tsr_vocab_options *options, tsr_vocab_sentence_fn next, void *user,
                           char **bytes, size_t *size)
{
  *bytes = nullptr;
  return guarded(name, [&]() -> tsr_status {
    sentencepiece::SetRandomGeneratorSeed(sample_seed);
    sentences input(next, user);
    if (input.done() && input.failure() == TSR_OK) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: there is no text in it", name);
    }
    std::string model;
    const auto result = sentencepiece::SentencePieceTrainer::Train(arguments(options), &input, &model);
    if (input.failure() != TSR_OK) {
      return input.failure();
    }
    if (!result.ok()) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: SentencePiece: %s", name, reason(result).c_str());
    }
    return copy_out(model, bytes, size);
  });
}

tsr_status tsr_vocab_list(const char *name, const char *bytes, size_t size, tsr_vocab_piece_fn receive, void *user)
{
  return guarded(name, [&] {
    sentencepiece::SentencePieceProcessor processor;
    const auto result = processor.LoadFromSerializedProto(absl::string_view(bytes, size));
    tsr_status status =
        result.ok() ? TSR_OK : tsr_fail(TSR_ERR_FORMAT, "%s: SentencePiece: %s", name, result.ToString().c_str());
    const int count = status == TSR_OK ? processor.GetPieceSize() : 0;
    for (int id = 0; id < count && status == TSR_OK; id++) {
      status = receive(user, id, processor.IdToPiece(id).c_str());
    }
    return status;
  });
}
