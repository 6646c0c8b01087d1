/* SPDX-License-Identifier: Apache-2.0
 *
 * POST /translate_file, and the files that clients fetch later.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tools/tessera/serve/clock.h"
#include "tools/tessera/serve/documents_glue.h"
#include "tools/tessera/serve/service.h"

enum { NAME_ROOM = 64, LETTERS = 26, MOST_STORED = 256 << 20 };
static const double kept_seconds = 3600.0;

typedef struct stored_file {
  struct stored_file *next;
  char name[NAME_ROOM];
  char *bytes;
  size_t size;
  double when;
} stored_file;

/* With the lock. */
static void forget(service *s, double before)
{
  for (stored_file **at = &s->files; *at;) {
    stored_file *one = *at;
    if (one->when < before) {
      *at = one->next;
      free(one->bytes);
      free(one);
    } else {
      at = &one->next;
    }
  }
}

void files_sweep(service *s)
{
  pthread_mutex_lock(&s->lock);
  forget(s, clock_seconds() - kept_seconds);
  pthread_mutex_unlock(&s->lock);
}

void files_finish(service *s)
{
  forget(s, clock_seconds() + 1.0);
}

/* Takes the bytes. Returns 0 if there is no room. */
static int keep_file(service *s, const char *ending, char *bytes, size_t size, char name[NAME_ROOM])
{
  stored_file *one = calloc(1, sizeof *one);
  size_t sum = size;
  int fine = one && random_name(one->name, LETTERS);
  if (fine) {
    snprintf(one->name + LETTERS, NAME_ROOM - LETTERS, "%s", ending);
    strcpy(name, one->name);
    one->bytes = bytes;
    one->size = size;
    one->when = clock_seconds();
    pthread_mutex_lock(&s->lock);
    for (const stored_file *other = s->files; other; other = other->next) {
      sum += other->size;
    }
    fine = sum <= MOST_STORED;
    if (fine) {
      one->next = s->files;
      s->files = one;
    }
    pthread_mutex_unlock(&s->lock);
  }
  if (!fine) {
    free(bytes);
    free(one);
  }
  return fine;
}

typedef struct file_job {
  call *call;
  documents_way way;
  const parameter *file; /* of the call */
  const char *ending;
  char base[256]; /* of the URL */
} file_job;

static void run_file(void *user)
{
  file_job *job = user;
  call *c = job->call;
  void *result = NULL;
  size_t size = 0;
  char problem[256] = "", name[NAME_ROOM];
  int status = documents_file(&job->way, job->file->file_name, job->file->value, job->file->size, &result, &size,
                              problem, sizeof problem);
  documents_way_finish(&job->way);
  if (status != 200) {
    free(result);
    documents_reply(c, status, problem);
  } else if (keep_file(c->service, job->ending, result, size, name)) {
    char url[384];
    snprintf(url, sizeof url, "%s/download_file/%s", job->base, name);
    reply_json(c, 200, json_pack("{s:s}", "translatedFileUrl", url));
  } else {
    reply_busy(c);
  }
  http_release(c->http);
}

/* What the client calls this server; what it says is told to it alone, and only if it can be a host's name. */
static void find_base(const call *c, char *base, size_t room)
{
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]";
  int is_local = 0;
  int behind = c->settings->proxies > 0;
  const char *host = behind ? http_header(c->http, "X-Forwarded-Host") : NULL;
  const char *scheme = behind ? http_header(c->http, "X-Forwarded-Proto") : NULL;
  host = host ? host : http_header(c->http, "Host");
  if (!host || !host[0] || host[strspn(host, letters)] || strlen(host) > 200) {
    host = http_listens(c->service->http, &is_local);
  }
  snprintf(base, room, "%s://%s", scheme && strcmp(scheme, "https") == 0 ? "https" : "http", host);
}

static const char *ending_of(const char *name)
{
  const char *dot = strrchr(name, '.');
  for (const char *const *one = documents_formats(); dot && *one; one++) {
    size_t size = strlen(*one);
    if (strlen(dot) == size && strncasecmp(dot, *one, size) == 0) {
      return *one;
    }
  }
  return NULL;
}

void api_translate_file(call *c)
{
  const parameters *p = &c->parameters;
  const parameter *file = parameters_find(p, "file");
  const char *source = parameters_text(p, "source"), *target = parameters_text(p, "target");
  if (!c->settings->files) {
    reply_error(c, 403, "Files translation are disabled on this server.");
    return;
  }
  if (!file || file->kind != PARAMETER_FILE || !source[0] || !target[0]) {
    reply_error(c, 400, "Invalid request: missing %s parameter",
                !file || file->kind != PARAMETER_FILE ? "file"
                : source[0]                           ? "target"
                                                      : "source");
    return;
  }
  const char *ending = ending_of(file->file_name);
  if (file->size == 0 || !ending) {
    reply_error(c, 400, ending ? "Invalid request: empty file" : "Invalid request: file format not supported");
    return;
  }
  model_set *set = models_hold(c->service->models);
  route way = {0};
  file_job *job = NULL;
  if (choose_route(c, set, source, target, (const char *const *)&file->value, &file->size, 1, &way)) {
    job = calloc(1, sizeof *job);
    if (!job) {
      reply_no_memory(c);
    }
  }
  if (!job) {
    models_release(c->service->models, set);
    return;
  }
  *job = (file_job){.call = c, .way = {.call = c, .set = set, .way = way}, .file = file, .ending = ending};
  find_base(c, job->base, sizeof job->base);
  c->own = job;
  http_hold(c->http);
  http_suspend(c->http);
  if (!pool_add(c->service->pool, run_file, job)) {
    documents_way_finish(&job->way);
    reply_busy(c);
    http_release(c->http);
  }
}

void api_download_file(call *c)
{
  const char *name = c->http->path + strlen("/download_file/");
  char *copy = NULL;
  size_t size = 0;
  int found = 0;
  files_sweep(c->service);
  pthread_mutex_lock(&c->service->lock);
  for (const stored_file *one = c->service->files; one; one = one->next) {
    if (strcmp(one->name, name) == 0) {
      found = 1;
      size = one->size;
      copy = malloc(size + 1);
      if (copy) {
        memcpy(copy, one->bytes, size);
      }
      break;
    }
  }
  pthread_mutex_unlock(&c->service->lock);
  if (!found) {
    reply_error(c, 404, "There is no such file");
    return;
  }
  http_answer_header(c->http, "Content-Disposition", "attachment");
  http_answer(c->http, 200, "application/octet-stream", copy, size);
}
