/* SPDX-License-Identifier: Apache-2.0 */
#include "tessera/status.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"

enum { MESSAGE_SIZE = 2048 };

static _Thread_local char error_message[MESSAGE_SIZE];
static _Thread_local int64_t error_sentence = -1; /* that the message is about */
static _Thread_local size_t error_named;          /* characters of the message up to behind the sentence's name */

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static tsr_log_fn log_receiver;
static void *log_user;

const char *tsr_status_name(tsr_status status)
{
  static const char *const names[] = {
      [TSR_OK] = "TSR_OK",
      [TSR_ERR_ARGUMENT] = "TSR_ERR_ARGUMENT",
      [TSR_ERR_SHAPE] = "TSR_ERR_SHAPE",
      [TSR_ERR_DTYPE] = "TSR_ERR_DTYPE",
      [TSR_ERR_UNSUPPORTED] = "TSR_ERR_UNSUPPORTED",
      [TSR_ERR_OUT_OF_MEMORY] = "TSR_ERR_OUT_OF_MEMORY",
      [TSR_ERR_DEVICE_MEMORY] = "TSR_ERR_DEVICE_MEMORY",
      [TSR_ERR_DEVICE_LOST] = "TSR_ERR_DEVICE_LOST",
      [TSR_ERR_NO_DEVICE] = "TSR_ERR_NO_DEVICE",
      [TSR_ERR_IO] = "TSR_ERR_IO",
      [TSR_ERR_FORMAT] = "TSR_ERR_FORMAT",
      [TSR_ERR_PLUGIN] = "TSR_ERR_PLUGIN",
      [TSR_ERR_INTERNAL] = "TSR_ERR_INTERNAL",
      [TSR_ERR_NOT_FINITE] = "TSR_ERR_NOT_FINITE",
      [TSR_ERR_BUSY] = "TSR_ERR_BUSY",
      [TSR_ERR_CANCELLED] = "TSR_ERR_CANCELLED",
      [TSR_ERR_DEADLINE] = "TSR_ERR_DEADLINE",
  };
  if (status < 0 || (size_t)status >= sizeof names / sizeof names[0]) {
    return "TSR_ERR_?";
  }
  return names[status];
}

const char *tsr_error_message(void)
{
  return error_message;
}

int64_t tsr_error_sentence(const char **message)
{
  if (message) {
    *message = error_message + error_named;
  }
  return error_sentence;
}

tsr_status tsr_fail(tsr_status status, const char *format, ...)
{
  /* The arguments may point into the current message, so it is replaced only when the new one is complete. */
  char text[MESSAGE_SIZE];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  memcpy(error_message, text, sizeof text);
  error_sentence = -1;
  error_named = 0;
  return status;
}

tsr_status tsr_fail_context(tsr_status status, const char *format, ...)
{
  if (status == TSR_OK) {
    return status;
  }
  char context[MESSAGE_SIZE / 2];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(context, sizeof context, format, arguments);
  va_end(arguments);
  char text[MESSAGE_SIZE];
  snprintf(text, sizeof text, "%s: %.*s", context, (int)(sizeof text - strlen(context) - 3), error_message);
  memcpy(error_message, text, sizeof text);
  if (error_sentence >= 0) {
    size_t end = strlen(text);
    error_named += strlen(context) + 2;
    error_named = error_named < end ? error_named : end;
  }
  return status;
}

tsr_status tsr_fail_sentence(tsr_status status, const char *what, int64_t sentence)
{
  if (status != TSR_OK) {
    size_t before = strlen(error_message);
    (void)tsr_fail_context(status, "%ssentence %lld", what, (long long)sentence);
    size_t now = strlen(error_message);
    error_sentence = sentence;
    error_named = now > before ? now - before : 0;
  }
  return status;
}

tsr_status tsr_fail_memory(size_t size)
{
  return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of host memory: %zu bytes could not be had", size);
}

void tsr_log_set(tsr_log_fn receiver, void *user)
{
  log_receiver = receiver;
  log_user = user;
}

static const char *const level_names[] = {"error", "warning", "info", "debug"};

/* The level up to which the default receiver prints; -1 if TESSERA_LOG is not a level's name. */
static int32_t level_wanted(const char *text)
{
  if (!text || !*text) {
    return TSR_LOG_WARNING;
  }
  for (int32_t i = TSR_LOG_ERROR; i <= TSR_LOG_DEBUG; i++) {
    if (strcmp(text, level_names[i]) == 0) {
      return i;
    }
  }
  return -1;
}

tsr_status tsr_log_check(void)
{
  const char *text = getenv("TESSERA_LOG");
  if (log_receiver || level_wanted(text) >= 0) {
    return TSR_OK;
  }
  return tsr_fail(TSR_ERR_ARGUMENT, "TESSERA_LOG is \"%s\"; it should be error, warning, info or debug", text);
}

static int32_t default_level(void)
{
  int32_t level = level_wanted(getenv("TESSERA_LOG"));
  return level >= 0 ? level : TSR_LOG_WARNING;
}

void tsr_log(int32_t level, const char *format, ...)
{
  if (!log_receiver && level > default_level()) {
    return;
  }
  char text[MESSAGE_SIZE];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  pthread_mutex_lock(&log_lock);
  if (log_receiver) {
    log_receiver(log_user, level, text);
  } else {
    fprintf(stderr, "tessera: %s: %s\n", level_names[level < 0 || level > 3 ? 0 : level], text);
  }
  pthread_mutex_unlock(&log_lock);
}
