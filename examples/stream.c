/* SPDX-License-Identifier: Apache-2.0
 *
 * A translation as it comes: word by word, while the model goes on.
 *
 *     cc -std=c11 stream.c $(pkg-config --cflags --libs tessera) -o stream && ./stream MODEL auto 'It is raining.'
 */
#include <stdio.h>

#include <tessera/translator.h>

/* Called by a thread of the library. What comes is final, and follows what came before; it is not NUL-terminated. */
static void print_piece(void *user, uint64_t ticket, const char *text, size_t size)
{
  int *n_pieces = user;
  (void)ticket; /* of the request: who has several in flight tells them apart by it */
  ++*n_pieces;
  fwrite(text, 1, size, stdout);
  fflush(stdout);
}

int main(int argc, char **argv)
{
  if (argc != 4) {
    fprintf(stderr, "Usage: %s MODEL DEVICE TEXT\n", argv[0]);
    return 2;
  }
  const char *device = argv[2];
  int n_pieces = 0;
  tsr_translator_options options = {TSR_SIZED(tsr_translator_options), .n_devices = 1, .devices = &device};
  tsr_generate_options search = {TSR_SIZED(tsr_generate_options)};
  tsr_translator *translator = NULL;
  tsr_translation *answer = NULL;
  tsr_status status = tsr_translator_open(argv[1], &options, &translator);
  if (status == TSR_OK) {
    status = tsr_generate_defaults(tsr_translator_model(translator), &search);
  }
  if (status == TSR_OK) {
    search.beam = 1; /* greedy search knows each word at once; with a beam, hypotheses have to agree on it */
    search.n_best = 1;
    tsr_translation_request request = {
        TSR_SIZED(tsr_translation_request),
        .text = argv[3],
        .long_input = TSR_LONG_SPLIT, /* a text longer than the model takes: its parts in their order */
        .search = &search,
        .piece = print_piece,
        .piece_user = &n_pieces,
    };
    status = tsr_translator_translate(translator, 1, &request, &answer); /* returns behind the last piece */
  }
  if (status != TSR_OK) {
    fprintf(stderr, "%s: %s\n", argv[0], tsr_error_message());
  } else if (answer->status != TSR_OK) {
    status = answer->status;
    fprintf(stderr, "\n%s: %s\n", argv[0], answer->message);
  } else {
    printf("\n%d pieces in %.3f seconds\n", n_pieces, answer->seconds);
  }
  tsr_translation_free(answer);
  tsr_translator_close(translator);
  return status == TSR_OK ? 0 : 1;
}
