/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera serve: starts and ends the server, and answers signals.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/tessera/commands.h"
#include "tools/tessera/common/device.h"
#include "tools/tessera/common/lines.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/path.h"
#include "tools/tessera/serve/clock.h"
#include "tools/tessera/serve/router.h"
#include "tools/tessera/serve/service.h"

typedef struct session {
  serve_settings options;
  service service;
  tsr_runtime *runtime;
  int has_locks;
  double last_answer; /* of the steady clock: after the deadlines of all requests that were accepted before SIGTERM */
  double last_sound;  /* the same of sounds */
} session;

/* ---- keys -------------------------------------------------------------------------------------------------------- */

static int print_key(const char *key, int shows_key)
{
  char line[KEY_LINE_ROOM];
  if (!api_key_line(key, line)) {
    tsr_cli_error("no random numbers are to be had");
    return TSR_EXIT_INTERNAL;
  }
  if (shows_key) {
    printf("key: %s\n", key);
  }
  puts(line);
  return TSR_EXIT_OK;
}

static int make_key(void)
{
  char key[64];
  return api_key_draw(key, sizeof key) ? print_key(key, 1) : TSR_EXIT_INTERNAL;
}

static int hash_key(void)
{
  tsr_cli_lines lines;
  int got = 0, code = tsr_cli_lines_open(&lines, NULL);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  code = tsr_cli_lines_next(&lines, &got);
  if (code == TSR_EXIT_OK && (!got || lines.size == 0)) {
    tsr_cli_error("standard input has no key");
    code = TSR_EXIT_INPUT;
  }
  code = code == TSR_EXIT_OK ? print_key(lines.text, 0) : code;
  tsr_cli_lines_finish(&lines);
  return code;
}

/* ---- configuration ----------------------------------------------------------------------------------------------- */

static int read_state(session *s, state **made)
{
  state *read = calloc(1, sizeof *read);
  *made = NULL;
  if (!read) {
    return tsr_cli_no_memory();
  }
  int code = serve_config_read(&s->options, &read->config);
  if (code == TSR_EXIT_OK && read->config->settings.keys) {
    code = api_keys_read(read->config->settings.keys, &read->keys);
  }
  const char *suggestions = code == TSR_EXIT_OK ? read->config->settings.suggestions : NULL;
  if (suggestions && !path_is_writable(suggestions)) { /* it is opened when one comes */
    tsr_cli_warning("--suggestions %s: cannot be written: %s", suggestions, strerror(errno));
  }
  if (code == TSR_EXIT_OK && read->config->settings.key_required && read->keys.n == 0) {
    tsr_cli_error("--key-required, but --keys names no key: every request would be refused");
    code = TSR_EXIT_USAGE;
  }
  if (code != TSR_EXIT_OK) {
    serve_config_finish(read->config);
    api_keys_finish(&read->keys);
    free(read);
    return code;
  }
  *made = read;
  return TSR_EXIT_OK;
}

static void take_state(service *s, state *made)
{
  pthread_mutex_lock(&s->lock);
  made->before = s->state;
  s->state = made;
  pthread_mutex_unlock(&s->lock);
}

/* What is wrong is told, and the server goes on as it was. */
static void reload(session *s)
{
  state *made = NULL;
  if (read_state(s, &made) != TSR_EXIT_OK) {
    tsr_cli_warning("the server goes on with its old settings");
    return;
  }
  const serve_settings *before = &s->service.state->config->settings;
  if (strcmp(before->listen, made->config->settings.listen) != 0) {
    tsr_cli_warning("where to listen changes with the next start alone");
  }
  /* Models point to the settings from now on. */
  int code = models_read(s->service.models, made->config);
  take_state(&s->service, made);
  fputs(code == TSR_EXIT_OK ? "tessera: read settings and models anew\n" : "", stderr);
}

/* ---- the server -------------------------------------------------------------------------------------------------- */

static int start(session *s)
{
  service *v = &s->service;
  const serve_settings *settings = &v->state->config->settings;
  const http_settings http = {.listen = settings->listen,
                              .connections = settings->connections,
                              .per_address = settings->connections_per_address,
                              .header_size = settings->header_limit << 10,
                              .headers = router_headers,
                              .request_seconds = settings->request_seconds,
                              .idle_seconds = settings->idle_seconds};
  http_handlers handlers = router_handlers;
  handlers.user = v;
  int code = http_start(&http, &handlers, &v->http);
  if (code == TSR_EXIT_OK) {
    int is_local = 0;
    const char *at = http_listens(v->http, &is_local);
    fprintf(stderr, "tessera: serving on http://%s\n", at);
    if (!is_local) {
      tsr_cli_warning("other machines can reach %s; requests are not encrypted%s", at,
                      settings->key_required ? "" : ", and nobody needs a key");
    }
  }
  return code;
}

/* Ends the process although threads are in a driver that does not return. */
static _Noreturn void leave(void)
{
  int code = tsr_cli_flush();
  _exit(code);
}

static double longest_timeout(const service *v, int is_sound)
{
  double longest = 0.0;
  for (const state *one = v->state; one; one = one->before) { /* requests keep what they began with */
    const serve_settings *settings = &one->config->settings;
    double timeout = is_sound ? settings->sound_timeout : settings->timeout;
    longest = timeout > longest ? timeout : longest;
  }
  return longest;
}

/* Lines or sounds that are in hand behind their deadline are with a device that does not return. */
static int is_hopeless(void *user)
{
  session *s = user;
  const double now = clock_seconds();
  return (work_lines_in_hand() > 0 && now > s->last_answer) ||
         (atomic_load(&s->service.sounds) > 0 && now > s->last_sound);
}

static void serve_until_end(session *s, const sigset_t *signals)
{
  for (;;) {
    const struct timespec minute = {.tv_sec = 60};
    int got = sigtimedwait(signals, NULL, &minute);
    if (got == SIGHUP) {
      reload(s);
    } else if (got == SIGTERM || got == SIGINT) {
      break;
    } else {
      files_sweep(&s->service);
    }
  }
  enum { GRACE = 5, SOUND_GRACE = 60 }; /* seconds: a deadline is looked at between two steps, or two windows */
  atomic_store(&s->service.is_draining, 1);
  s->last_answer = clock_seconds() + longest_timeout(&s->service, 0) + GRACE;
  s->last_sound = clock_seconds() + longest_timeout(&s->service, 1) + SOUND_GRACE;
  if (!http_drain(s->service.http, is_hopeless, s)) {
    tsr_cli_warning("%lld lines and %d sounds are late by more than %d and %d seconds: a device does not answer; the "
                    "server ends without it",
                    (long long)work_lines_in_hand(), atomic_load(&s->service.sounds), GRACE, SOUND_GRACE);
    leave();
  }
}

static int run(void *opaque)
{
  session *s = opaque;
  service *v = &s->service;
  if (s->options.make_key || s->options.hash_key) {
    return s->options.make_key ? make_key() : hash_key();
  }
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, NULL); /* of all threads to come */
  signal(SIGPIPE, SIG_IGN);
  json_object_seed(0);
  pthread_mutex_init(&v->lock, NULL);
  pthread_mutex_init(&v->suggesting, NULL);
  s->has_locks = 1;
  v->start = clock_seconds();
  state *made = NULL;
  int code = read_state(s, &made);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  take_state(v, made);
  code = tsr_cli_runtime(&s->runtime);
  if (code == TSR_EXIT_OK) {
    v->models = models_create(s->runtime);
    v->limits = limits_create();
    v->pool = pool_create(made->config->settings.document_threads, 64);
    v->sound_pool = pool_create(1, made->config->settings.sound_queue);
    code = v->models && v->limits && v->pool && v->sound_pool ? TSR_EXIT_OK : tsr_cli_no_memory();
  }
  code = code == TSR_EXIT_OK ? models_read(v->models, made->config) : code;
  if (code == TSR_EXIT_OK && s->options.check) {
    model_set *set = models_hold(v->models);
    const int32_t n = model_set_print(set);
    models_release(v->models, set);
    return n > 0 ? TSR_EXIT_OK : TSR_EXIT_INPUT; /* and stderr says why nothing is */
  }
  code = code == TSR_EXIT_OK ? start(s) : code;
  if (code == TSR_EXIT_OK) {
    serve_until_end(s, &signals);
  }
  return code;
}

static void finish(void *opaque)
{
  session *s = opaque;
  service *v = &s->service;
  pool_destroy(v->pool);
  pool_destroy(v->sound_pool);
  http_stop(v->http);
  if (!models_destroy(v->models)) { /* ends the threads that answer */
    leave();
  }
  http_destroy(v->http);
  limits_destroy(v->limits);
  tsr_runtime_destroy(s->runtime);
  files_finish(v);
  for (state *one = v->state; one;) {
    state *before = one->before;
    serve_config_finish(one->config);
    api_keys_finish(&one->keys);
    free(one);
    one = before;
  }
  if (s->has_locks) {
    pthread_mutex_destroy(&v->lock);
    pthread_mutex_destroy(&v->suggesting);
  }
}

static const tsr_option rows[] = {
    {.table = &serve_options, .offset = offsetof(session, options)},
    {NULL},
};

static const tsr_option_table options = {.rows = rows};

const tsr_command tsr_command_serve = {
    .name = "serve",
    .summary = TSR_SERVE_SUMMARY,
    .usage = "--models FOLDER [OPTION]...",
    .intro = "Serves the models below a folder by HTTP, with the API of LibreTranslate, that of DeepL at "
             "/v2/translate, and, of models of speech, that of OpenAI at /v1/audio. A pair of languages that no model "
             "has goes through a third one, English if it can. Models "
             "are opened when they are first asked for.\n"
             "\n"
             "SIGTERM finishes the requests that were accepted, and ends; SIGHUP reads the settings and the models "
             "anew.",
    .options = &options,
    .examples = "tessera serve --models ~/models\n"
                "tessera serve --models tools --direction demo-model=en-fr --device cpu",
    .session_size = sizeof(session),
    .run = run,
    .finish = finish,
};
