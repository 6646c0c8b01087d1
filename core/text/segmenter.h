/* SPDX-License-Identifier: Apache-2.0
 *
 * What cuts a text into pieces, and joins pieces to a text: SentencePiece, byte-level BPE. Pieces are texts; their ids
 * are the vocabulary's business.
 */
#ifndef TESSERA_CORE_SEGMENTER_H
#define TESSERA_CORE_SEGMENTER_H

#include <stddef.h>

#include "tessera/status.h"

/* Receives one piece, which is not NUL-terminated. An error ends the call it came from, and is what that returns. */
typedef tsr_status (*tsr_piece_fn)(void *user, const char *piece, size_t size);

typedef struct tsr_segmenter_methods {
  /* Calls `receive` for each piece of the text, in order. The text may be any bytes: what is not UTF-8 is read as
   * U+FFFD. */
  tsr_status (*encode)(const void *state, const char *text, size_t size, tsr_piece_fn receive, void *user);
  /* The text of pieces, each NUL-terminated; one that is not known stands for itself. *text is UTF-8, allocated and
   * NUL-terminated; the caller frees it. */
  tsr_status (*decode)(const void *state, const char *const *pieces, size_t n_pieces, char **text);
  void (*close)(void *state);
} tsr_segmenter_methods;

/* Zeroed: there is none. Immutable: any number of threads. */
typedef struct tsr_segmenter {
  const tsr_segmenter_methods *methods;
  void *state;
} tsr_segmenter;

static inline void tsr_segmenter_close(tsr_segmenter segmenter)
{
  if (segmenter.methods) {
    {
      {
        {
          {
            {
              {
                {
                  {
                    {
                      {
                        {
                          {
                            {
                              {
                                {
                                  {
                                    {
                                      {
                                        {
                                          segmenter.methods->close(segmenter.state);
                                        }
                                      }
                                    }
                                  }
                                }
                              }
                            }
                          }
                        }
                      }
                    }
                  }
                }
              }
            }
          }
        }
      }
    }
  }
}

#endif
