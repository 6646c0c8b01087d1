/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/serve/hearing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/common/message.h"
#include "tools/tessera/serve/clock.h"
#include "tools/tessera/serve/instance.h"
#include "tools/tessera/serve/model_set.h"
#include "tools/tessera/serve/models_private.h"

/* Sounds of a run, those that join it included: more than come while a long one is heard. */
enum { MOST_TOGETHER = 4096 };

static const float temperature_step = 0.2f;

static struct {
  pthread_mutex_t lock;
  hearing_statistics sums;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Sounds that are heard together. */
typedef struct run {
  instance *by;
  sound_wishes wishes;          /* of all of them; the run's own copies */
  sound *sounds[MOST_TOGETHER]; /* NULL: it has ended */
  tsr_transcript transcripts[MOST_TOGETHER];
  int32_t n;
} run;

void hearing_measure(hearing_statistics *statistics)
{
  pthread_mutex_lock(&all.lock);
  *statistics = all.sums;
  pthread_mutex_unlock(&all.lock);
}

static void count(int64_t sounds, int64_t runs, double seconds, int32_t running)
{
  pthread_mutex_lock(&all.lock);
  all.sums.sounds += sounds;
  all.sums.runs += runs;
  all.sums.seconds += seconds;
  all.sums.running += running;
  pthread_mutex_unlock(&all.lock);
}

/* ---- what a run is asked for ------------------------------------------------------------------------------------- */

static int is_same_text(const char *a, const char *b)
{
  return a == b || (a && b && strcmp(a, b) == 0);
}

static int is_alike(const sound_wishes *a, const sound_wishes *b)
{
  return a->task == b->task && a->words == b->words && a->temperature == b->temperature &&
         is_same_text(a->language, b->language) && is_same_text(a->prompt, b->prompt);
}

/* With the lock of the models: the first sound that waits. */
static sound *take_first(model *of)
{
  segment *s = of->first;
  of->first = s->next;
  of->last = of->first ? of->last : NULL;
  of->used = clock_seconds();
  return (sound *)(void *)s;
}

int sound_is_over(sound *s)
{
  return s->segment.is_cancelled(&s->segment) || s->segment.deadline <= clock_seconds();
}

/* ---- while they are heard: in the thread of the model ------------------------------------------------------------ */

/* Only the sound that waits longest may join, and only if it asks for the same: so no other one waits for ever. */
static int32_t on_next(void *user, int32_t number, tsr_audio **audio)
{
  run *r = user;
  models *m = r->by->models;
  pthread_mutex_lock(&m->lock);
  model *of = r->by->model;
  const int has_one = of && of->first && is_alike(&((sound *)(void *)of->first)->wishes, &r->wishes);
  sound *s = has_one ? take_first(of) : NULL;
  pthread_mutex_unlock(&m->lock);
  if (s) {
    r->sounds[number] = s;
    r->n = number + 1;
    *audio = s->audio;
    count(0, 0, 0, 1);
  }
  return has_one;
}

static int32_t on_segment(void *user, int32_t number, const tsr_segment *heard)
{
  const run *r = user;
  sound *s = r->sounds[number];
  const size_t size = strlen(heard->text), again = s->told - s->come, skip = again < size ? again : size;
  s->come += size;
  if (s->piece && size > skip) {
    s->piece(s, heard->text + skip, size - skip);
    s->told += size - skip;
  }
  return s->is_too_long || sound_is_over(s);
}

static void on_heard(void *user, int32_t number, double seconds, double of)
{
  const run *r = user;
  sound *s = r->sounds[number];
  (void)of;
  s->is_too_long |= s->most_seconds > 0 && seconds > s->most_seconds;
}

static void finish_sound(run *r, int32_t number, int outcome)
{
  sound *s = r->sounds[number];
  r->sounds[number] = NULL;
  count(outcome == SEGMENT_DONE, 0, s->transcript ? s->transcript->duration : 0, -1);
  segment_finish(&s->segment, outcome, NULL);
}

static void on_ended(void *user, int32_t number)
{
  run *r = user;
  sound *s = r->sounds[number];
  tsr_transcript *transcript = &r->transcripts[number];
  if (s->segment.is_cancelled(&s->segment)) {
    finish_sound(r, number, SEGMENT_CANCELLED);
  } else if (sound_is_over(s)) {
    finish_sound(r, number, SEGMENT_LATE);
  } else if (s->is_too_long || transcript->status != TSR_OK) {
    snprintf(s->problem, sizeof s->problem, "%s", transcript->error ? transcript->error : "");
    s->status = transcript->status;
    finish_sound(r, number, SEGMENT_REFUSED);
  } else {
    s->transcript = transcript;
    finish_sound(r, number, SEGMENT_DONE);
  }
  tsr_transcript_finish(transcript); /* others may still be heard for long */
}

/* ---- a run ------------------------------------------------------------------------------------------------------- */

/* As the published program does: from the temperature that is asked for, in steps up to 1 and no further. */
static void fill_temperatures(tsr_transcribe_options *options, float first)
{
  options->n_temperatures = 0;
  for (int32_t i = 0; i < TSR_MOST_TEMPERATURES; i++) {
    const float one = first + temperature_step * (float)i;
    if (i > 0 && one > 1.0f + 1e-5f) { /* sums are rounded */
      break;
    }
    options->temperatures[options->n_temperatures++] = one;
  }
}

static tsr_status transcribe(run *r)
{
  tsr_audio *sounds[MOST_TOGETHER] = {r->sounds[0]->audio};
  tsr_transcribe_options options = {TSR_SIZED(tsr_transcribe_options)};
  tsr_status status = tsr_transcribe_defaults(&options);
  if (status != TSR_OK) {
    return status;
  }
  fill_temperatures(&options, r->wishes.temperature);
  options.task = r->wishes.task;
  options.language = r->wishes.language;
  options.prompt = r->wishes.prompt;
  options.words = r->wishes.words;
  options.segment = on_segment;
  options.heard = on_heard;
  options.next = on_next;
  options.ended = on_ended;
  options.user = r;
  status = tsr_transcribe(r->by->transcriber, MOST_TOGETHER, sounds, &options, r->transcripts);
  for (int32_t i = 0; status == TSR_OK && i < MOST_TOGETHER; i++) {
    tsr_transcript_finish(&r->transcripts[i]);
  }
  return status;
}

/* Which of a run's wishes the model cannot do; NULL: none of them alone. */
static const char *find_wrong(const run *r)
{
  const tsr_tokenizer *tokenizer = tsr_transcriber_tokenizer(r->by->transcriber);
  const char *language = r->wishes.language, *prompt = r->wishes.prompt;
  int32_t index, n, *ids = NULL;
  if (language && tsr_speech_find_language(tokenizer, language, &index) != TSR_OK) {
    return "language";
  }
  const int is_wrong = prompt && tsr_speech_prompt(tokenizer, prompt, strlen(prompt), &ids, &n) == TSR_ERR_ARGUMENT;
  tsr_free(ids);
  return is_wrong ? "prompt" : NULL;
}

/* The message of an error, without the model's folder, which is not for clients. */
static void tell_problem(const run *r, sound *s, const char *message)
{
  const tsr_model *opened = tsr_transcriber_model(r->by->transcriber);
  const char *folder = tsr_model_folder(opened);
  const size_t size = strlen(folder);
  const int has_folder = strncmp(message, folder, size) == 0 && message[size] == ':';
  snprintf(s->problem, sizeof s->problem, "%s", has_folder ? message + size + 2 : message);
  s->param = find_wrong(r);
}

/* What is still in hand comes to its end, or to another device, where a run has failed. */
static void give_up(run *r, tsr_status status, const char *message)
{
  if (instance_is_about_device(status)) {
    models_lose(r->by, message);
  }
  for (int32_t i = 0; i < r->n; i++) {
    sound *s = r->sounds[i];
    if (!s) {
      continue;
    }
    s->come = 0;
    if (instance_is_about_device(status) && tsr_audio_restart(s->audio) == TSR_OK) {
      r->sounds[i] = NULL;
      count(0, 0, 0, -1);
      segment_try_again(&s->segment);
    } else if (status == TSR_ERR_ARGUMENT || status == TSR_ERR_UNSUPPORTED) {
      tell_problem(r, s, message);
      finish_sound(r, i, SEGMENT_REFUSED);
    } else {
      tsr_cli_warning("a sound was not heard: %s", message);
      finish_sound(r, i, SEGMENT_FAILED);
    }
  }
}

/* With the lock of the models, which is given up meanwhile. */
static void hear(instance *by, run *r)
{
  models *m = by->models;
  sound *first = take_first(by->model);
  memset(r, 0, sizeof *r);
  r->by = by;
  r->wishes = first->wishes;
  r->sounds[0] = first;
  r->n = 1;
  instance_hold(by);
  pthread_mutex_unlock(&m->lock);
  count(0, 1, 0, 1);
  char *language = first->wishes.language ? strdup(first->wishes.language) : NULL;
  char *prompt = first->wishes.prompt ? strdup(first->wishes.prompt) : NULL;
  tsr_status status;
  if (!language != !first->wishes.language || !prompt != !first->wishes.prompt) {
    status = tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory");
  } else {
    r->wishes.language = language;
    r->wishes.prompt = prompt;
    status = sound_is_over(first) ? TSR_ERR_CANCELLED : transcribe(r);
  }
  if (status == TSR_ERR_CANCELLED) {
    on_ended(r, 0);
  } else if (status != TSR_OK) {
    char message[SOUND_MESSAGE];
    snprintf(message, sizeof message, "%s", tsr_error_message());
    give_up(r, status, message);
  }
  free(language);
  free(prompt);
  instance_note_bytes(by);
  pthread_mutex_lock(&m->lock);
  instance_release(by);
}

static void *run_thread(void *user)
{
  instance *by = user;
  models *m = by->models;
  run *r = by->run;
  pthread_mutex_lock(&m->lock);
  while (!by->is_stopping) {
    if (by->model && by->model->first) {
      hear(by, r);
    } else {
      pthread_cond_wait(&m->sounds, &m->lock);
    }
  }
  pthread_mutex_unlock(&m->lock);
  return NULL;
}

int hearing_start(instance *by)
{
  by->run = malloc(sizeof(run));
  by->has_thread = by->run && pthread_create(&by->thread, NULL, run_thread, by) == 0;
  return by->has_thread;
}

void hearing_stop(instance *by)
{
  if (by->has_thread) {
    pthread_mutex_lock(&by->models->lock);
    by->is_stopping = 1;
    pthread_cond_broadcast(&by->models->sounds);
    pthread_mutex_unlock(&by->models->lock);
    pthread_join(by->thread, NULL);
  }
  free(by->run);
}
