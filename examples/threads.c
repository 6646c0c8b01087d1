/* SPDX-License-Identifier: Apache-2.0
 *
 * Many threads, one translator: each thread hands in a text when it has the answer to the one before, as the threads of
 * a server do. The texts of all threads share batches.
 *
 *     cc -std=c11 threads.c $(pkg-config --cflags --libs tessera) -pthread -o threads && ./threads MODEL
 */
#include <pthread.h>
#include <stdio.h>

#include <tessera/translator.h>

enum { N_THREADS = 8, N_TEXTS = 16 };

static const char *const texts[N_TEXTS] = {
    "He was playing tennis all day.",
    "Could you please stop singing?",
    "I hope Tom will be very happy.",
    "Where is the station?",
    "My brother lives in Boston.",
    "She has two cats and a dog.",
    "It is raining.",
    "I don't know what to say.",
    "We have to go now.",
    "This book is very interesting.",
    "Do you like music?",
    "They were waiting for the bus.",
    "The children are in the garden.",
    "Tom wants to learn French.",
    "I would like a glass of water.",
    "The door was open.",
};

/* What one thread has to do: texts `first`, first + N_THREADS, .. */
typedef struct task {
  tsr_translator *translator;
  tsr_translation **answers; /* [N_TEXTS]; each thread writes its own */
  int first;
  tsr_status status;
  char message[200]; /* a library's message belongs to the thread in which it failed */
} task;

static void *work(void *argument)
{
  task *t = argument;
  for (int i = t->first; i < N_TEXTS && t->status == TSR_OK; i += N_THREADS) {
    tsr_translation_request request = {TSR_SIZED(tsr_translation_request), .text = texts[i]};
    t->status = tsr_translator_translate(t->translator, 1, &request, &t->answers[i]);
    if (t->status != TSR_OK) {
      snprintf(t->message, sizeof t->message, "%s", tsr_error_message());
    }
  }
  return NULL;
}

/* Prints the answers in the order of the texts, whichever came first. Returns how many are missing. */
static int print(tsr_translation *const *answers)
{
  int n_missing = 0;
  for (int i = 0; i < N_TEXTS; i++) {
    if (answers[i] && answers[i]->status == TSR_OK) {
      printf("%s\n    %s\n", texts[i], answers[i]->hypotheses[0]->text);
    } else {
      fprintf(stderr, "%s: %s\n", texts[i], answers[i] ? answers[i]->message : "no answer");
      n_missing++;
    }
  }
  return n_missing;
}

int main(int argc, char **argv)
{
  if (argc < 2) {
    fprintf(stderr, "Usage: %s MODEL [DEVICE...]\n", argv[0]);
    return 2;
  }
  /* Several devices would share the texts. */
  tsr_translator_options options = {TSR_SIZED(tsr_translator_options), .n_devices = argc - 2,
                                    .devices = (const char *const *)&argv[2]};
  tsr_translator *translator = NULL;
  if (tsr_translator_open(argv[1], &options, &translator) != TSR_OK) {
    fprintf(stderr, "%s: %s\n", argv[0], tsr_error_message());
    return 1;
  }
  tsr_translation *answers[N_TEXTS] = {NULL};
  task tasks[N_THREADS];
  pthread_t threads[N_THREADS];
  int n_started = 0;
  while (n_started < N_THREADS) {
    tasks[n_started] = (task){.translator = translator, .answers = answers, .first = n_started};
    if (pthread_create(&threads[n_started], NULL, work, &tasks[n_started]) != 0) {
      fprintf(stderr, "%s: no thread could be started\n", argv[0]);
      break;
    }
    n_started++;
  }
  for (int i = 0; i < n_started; i++) {
    (void)pthread_join(threads[i], NULL);
    if (tasks[i].status != TSR_OK) {
      fprintf(stderr, "%s: %s\n", argv[0], tasks[i].message);
    }
  }
  int n_missing = print(answers);
  tsr_translator_statistics did;
  tsr_translator_measure(translator, &did);
  fprintf(stderr, "%d texts of %d threads, %.1f in a step on average\n", N_TEXTS - n_missing, n_started,
          did.step_runs > 0 ? (double)did.rows / (double)did.step_runs : 0.0);
  for (int i = 0; i < N_TEXTS; i++) {
    tsr_translation_free(answers[i]);
  }
  tsr_translator_close(translator);
  return n_missing > 0 ? 1 : 0;
}
