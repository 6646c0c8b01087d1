/* SPDX-License-Identifier: Apache-2.0
 *
 * The logs of a run: what a spreadsheet reads, what a program reads.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include <jansson.h>

#include "core/base/status.h"
#include "core/checkpoint/file.h"
#include "core/train/run_parts.h"

enum { CSV = 0, JSON_LINES = 1, LAYERS = 2, REAL_DIGITS = 17 };

static const char *const names[TSR_RUN_LOGS] = {"log.csv", "log.jsonl", "layers.csv"};
static const char *const heads[TSR_RUN_LOGS] = {
    ("step,epoch,seconds,loss,learning_rate,gradient_norm,tokens_per_second,scale,skipped,"
     "valid_loss,valid_perplexity,valid_bleu,valid_exact\n"),
    "", "step,layer,mean,deviation,gradient_norm\n"};

static tsr_status fail_write(int32_t which)
{
  return tsr_fail(TSR_ERR_IO, "%s: cannot be written: %s", names[which], strerror(errno));
}

static tsr_status open_one(tsr_run_log *log, const char *folder, int32_t which)
{
  char *path = tsr_path_join(folder, names[which]);
  if (!path) {
    return TSR_ERR_OUT_OF_MEMORY;
  }
  tsr_status status = TSR_OK;
  int descriptor = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor < 0) {
    status = tsr_fail(TSR_ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
  } else if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    status = errno == EWOULDBLOCK ? tsr_fail(TSR_ERR_IO, "%s: another training writes to it", path)
                                  : tsr_fail(TSR_ERR_IO, "%s: cannot be locked: %s", path, strerror(errno));
  } else {
    log->files[which] = fdopen(descriptor, "a");
    status = log->files[which] ? TSR_OK : tsr_fail_memory(sizeof(FILE));
  }
  if (descriptor >= 0 && !log->files[which]) {
    close(descriptor);
  }
  free(path);
  return status;
}

tsr_status tsr_run_log_open(tsr_run_log *log, const char *folder, int32_t statistics)
{
  for (int32_t i = 0; i < TSR_RUN_LOGS; i++) {
    if (i != LAYERS || statistics) {
      TSR_TRY(open_one(log, folder, i));
    }
  }
  return TSR_OK;
}

tsr_status tsr_run_log_begin(tsr_run_log *log, const int64_t sizes[TSR_RUN_LOGS])
{
  for (int32_t i = 0; i < TSR_RUN_LOGS; i++) {
    if (!log->files[i]) {
      continue;
    }
    int descriptor = fileno(log->files[i]);
    off_t found = lseek(descriptor, 0, SEEK_END), kept = sizes ? (off_t)sizes[i] : 0;
    if (found > kept && ftruncate(descriptor, kept) != 0) {
      return tsr_fail(TSR_ERR_IO, "%s: cannot be cut: %s", names[i], strerror(errno));
    }
    if (lseek(descriptor, 0, SEEK_END) == 0 && (fputs(heads[i], log->files[i]) < 0 || fflush(log->files[i]) != 0)) {
      return fail_write(i);
    }
  }
  return TSR_OK;
}

void tsr_run_log_finish(tsr_run_log *log)
{
  for (int32_t i = 0; i < TSR_RUN_LOGS; i++) {
    if (log->files[i]) {
      fclose(log->files[i]);
    }
  }
  *log = (tsr_run_log){{NULL}};
}

static tsr_status flush(tsr_run_log *log, int32_t which)
{
  return fflush(log->files[which]) == 0 && !ferror(log->files[which]) ? TSR_OK : fail_write(which);
}

/* Takes `row`, NULL being a failed allocation. */
static tsr_status write_json(tsr_run_log *log, json_t *row)
{
  char *text = row ? json_dumps(row, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(REAL_DIGITS)) : NULL;
  json_decref(row);
  if (!text) {
    return tsr_fail_memory(sizeof(json_t));
  }
  fprintf(log->files[JSON_LINES], "%s\n", text);
  free(text);
  return flush(log, JSON_LINES);
}

static json_t *real(double value)
{
  return isfinite(value) ? json_real(value) : json_null();
}

static tsr_status write_layers(tsr_run_log *log, int64_t step, const tsr_trainer *trainer, json_t *row)
{
  json_t *layers = json_array();
  tsr_status status = TSR_OK;
  for (int32_t i = 0; i < tsr_trainer_layer_count(trainer) && status == TSR_OK; i++) {
    tsr_layer_statistics layer;
    status = tsr_trainer_layer(trainer, i, &layer);
    if (status == TSR_OK) {
      fprintf(log->files[LAYERS], "%" PRId64 ",%s,%.9g,%.9g,%.9g\n", step, layer.name, layer.mean, layer.deviation,
              layer.gradient_norm);
      json_array_append_new(layers,
                            json_pack("{s:s, s:o, s:o, s:o}", "name", layer.name, "mean", real(layer.mean), "deviation",
                                      real(layer.deviation), "gradient_norm", real(layer.gradient_norm)));
    }
  }
  json_object_set_new(row, "layers", layers);
  return status == TSR_OK ? flush(log, LAYERS) : status;
}

tsr_status tsr_run_log_step(tsr_run_log *log, const tsr_training_run_step *row, const tsr_trainer *trainer)
{
  fprintf(log->files[CSV], "%" PRId64 ",%" PRId64 ",%.3f,%.9g,%.9g,%.9g,%.1f,%g,%" PRId64 ",,,,\n", row->step,
          row->epoch, row->seconds, row->loss, row->rate, row->gradient_norm, row->tokens_per_second, row->scale,
          row->skipped);
  TSR_TRY(flush(log, CSV));
  json_t *line =
      json_pack("{s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:I}", "step", (json_int_t)row->step, "epoch",
                (json_int_t)row->epoch, "seconds", real(row->seconds), "loss", real(row->loss), "learning_rate",
                real(row->rate), "gradient_norm", real(row->gradient_norm), "tokens_per_second",
                real(row->tokens_per_second), "scale", real(row->scale), "skipped", (json_int_t)row->skipped);
  tsr_status status = line && log->files[LAYERS] ? write_layers(log, row->step, trainer, line) : TSR_OK;
  if (status != TSR_OK) {
    json_decref(line);
    return status;
  }
  return write_json(log, line);
}

/* A number of the CSV; nothing for NaN. Writes into text (of 32 bytes) and returns it. */
static const char *cell(char *text, double value)
{
  text[0] = '\0';
  if (!isnan(value)) {
    snprintf(text, 32, "%.9g", value);
  }
  return text;
}

tsr_status tsr_run_log_validation(tsr_run_log *log, const tsr_training_run_validation *row)
{
  char bleu[32], exact[32];
  fprintf(log->files[CSV], "%" PRId64 ",%" PRId64 ",%.3f,,,,,,,%.9g,%.9g,%s,%s\n", row->step, row->epoch, row->seconds,
          row->loss, row->perplexity, cell(bleu, row->bleu), cell(exact, row->exact));
  TSR_TRY(flush(log, CSV));
  json_t *line =
      json_pack("{s:I, s:I, s:o, s:o, s:o}", "step", (json_int_t)row->step, "epoch", (json_int_t)row->epoch, "seconds",
                real(row->seconds), "valid_loss", real(row->loss), "valid_perplexity", real(row->perplexity));
  if (line && !isnan(row->bleu)) {
    json_object_set_new(line, "valid_bleu", real(row->bleu));
  }
  if (line && !isnan(row->exact)) {
    json_object_set_new(line, "valid_exact", real(row->exact));
  }
  if (line && row->averaged > 0) {
    json_object_set_new(line, "averaged", json_integer(row->averaged));
  }
  return write_json(log, line);
}

tsr_status tsr_run_log_sync(tsr_run_log *log, int64_t sizes[TSR_RUN_LOGS])
{
  for (int32_t i = 0; i < TSR_RUN_LOGS; i++) {
    if (!log->files[i]) {
      continue; /* what it had stays */
    }
    TSR_TRY(flush(log, i));
    int descriptor = fileno(log->files[i]);
    off_t size = lseek(descriptor, 0, SEEK_END);
    if (size < 0 || fdatasync(descriptor) != 0) {
      return fail_write(i);
    }
    sizes[i] = (int64_t)size;
  }
  return TSR_OK;
}
