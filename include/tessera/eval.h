/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera/eval.h: how good a translation or a transcript is: BLEU and chrF against one reference or several, as
 * sacreBLEU 2 computes them, the word error rate, and the text normalisers of Whisper.
 *
 *   BLEU   tokenizer 13a, mixed case, n-grams of 1 to 4 words, exponential smoothing
 *   chrF   chrF2: n-grams of 1 to 6 characters, no words, beta 2, white space left out
 *   WER    substitutions, deletions and insertions of words, over the words of the references
 *
 * Texts are UTF-8; invalid bytes are read as U+FFFD, and NUL bytes are characters like others. BLEU and chrF are 0 to
 * 100; the word error rate is a percentage, too, and above 100 where there are more errors than words.
 */
#ifndef TESSERA_EVAL_H
#define TESSERA_EVAL_H

#include "tessera/status.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { TSR_BLEU_ORDER = 4, TSR_CHRF_ORDER = 6 }; /* longest n-grams */

/* A borrowed text; bytes may be NULL if size is 0. */
typedef struct tsr_span {
  const char *bytes;
  size_t size;
} tsr_span;

typedef struct tsr_bleu {
  double score;                      /* 0 if no word matches, or (corpora) if there is no n-gram of some order */
  double precisions[TSR_BLEU_ORDER]; /* percent, smoothed, of n-grams of 1 to 4 words; all 0 if no word matches */
  double brevity_penalty;
  int64_t matches[TSR_BLEU_ORDER]; /* n-grams that the reference has, too */
  int64_t totals[TSR_BLEU_ORDER];  /* n-grams of the hypotheses */
  int64_t hypothesis_length;       /* words */
  int64_t reference_length;
} tsr_bleu;

typedef struct tsr_chrf {
  double score;
  double precision;                   /* mean over the orders that both sides have, 0 to 1 */
  double recall;                      /* likewise */
  int64_t matches[TSR_CHRF_ORDER];    /* n-grams of 1 to 6 characters */
  int64_t hypothesis[TSR_CHRF_ORDER]; /* of sentences whose reference has such n-grams */
  int64_t reference[TSR_CHRF_ORDER];
} tsr_chrf;

/* Errors are counted by an alignment with as few of them as possible, and of such alignments by one with the fewest
 * substitutions. */
typedef struct tsr_wer {
  double score;          /* percent: 100 * (substitutions + deletions + insertions) / reference_words; NaN if there are
                          * no reference_words */
  int64_t substitutions; /* words in the place of others */
  int64_t deletions;     /* words of the references that the hypotheses lack */
  int64_t insertions;    /* words of the hypotheses that the references lack */
  int64_t reference_words;
  int64_t hypothesis_words;
} tsr_wer;

/* A signature says how a score was computed, in sacreBLEU's form. The version is this library's, marked as such:
 * "nrefs:1| case:mixed|eff:no|tok:13a|smooth:exp|version:tessera-0.1.0". Static. Any thread. */
TSR_API const char *tsr_bleu_signature(void);
TSR_API const char *tsr_chrf_signature(void);

/* Of a whole corpus: n sentences and their references. No sentences: everything 0, the brevity penalty 1. Any thread.
 * Errors: TSR_ERR_ARGUMENT, TSR_ERR_OUT_OF_MEMORY. */
TSR_API tsr_status tsr_bleu_corpus(const tsr_span *hypotheses, const tsr_span *references, int64_t n,
                                   tsr_bleu *bleu) TSR_MUST_CHECK;
TSR_API tsr_status tsr_chrf_corpus(const tsr_span *hypotheses, const tsr_span *references, int64_t n,
                                   tsr_chrf *chrf) TSR_MUST_CHECK;

/* BLEU of one sentence with effective order: orders beyond the hypothesis' length do not count. (chrF of one sentence
 * is that of a corpus of one.) */
TSR_API tsr_status tsr_bleu_sentence(tsr_span hypothesis, tsr_span reference, tsr_bleu *bleu) TSR_MUST_CHECK;

/* ------------------------------------------------------------------------------------------------------------------
 * Pair by pair, for corpora that are not held in memory
 */
enum { TSR_METRIC_BLEU = 1, TSR_METRIC_CHRF = 2, TSR_METRIC_WER = 4 };

typedef struct tsr_scorer tsr_scorer;

/* metrics: one or more of TSR_METRIC_*. One thread at a time. *scorer is the caller's until tsr_scorer_destroy. */
TSR_API tsr_status tsr_scorer_create(int32_t metrics, tsr_scorer **scorer) TSR_MUST_CHECK;
TSR_API void tsr_scorer_destroy(tsr_scorer *scorer); /* takes NULL */

/* Adds a sentence; the texts are not kept. On an error the scorer is as before. Errors: TSR_ERR_ARGUMENT (a text beyond
 * 1 GiB), TSR_ERR_OUT_OF_MEMORY. */
TSR_API tsr_status tsr_scorer_add(tsr_scorer *scorer, tsr_span hypothesis, tsr_span reference) TSR_MUST_CHECK;

/* The same with n_references >= 1 references; the number may vary from sentence to sentence. If there are several,
 * empty ones are left out. BLEU counts each n-gram as the reference that has it most often, and uses the length nearest
 * to the hypothesis'. chrF uses the reference with which the sentence scores best, the word error rate the one with the
 * fewest errors per word.
 *
 * The word error rate takes memory for the words of a sentence, and time that is proportional to the words of the
 * reference times the errors: long texts that have little in common take long. */
TSR_API tsr_status tsr_scorer_add_references(tsr_scorer *scorer, tsr_span hypothesis, const tsr_span *references,
                                             int32_t n_references) TSR_MUST_CHECK;

/* The scores of the sentence that was added last, as those of tsr_bleu_sentence; bleu or chrf may be NULL. Errors:
 * TSR_ERR_ARGUMENT (none was, or a metric that the scorer does not have). */
TSR_API tsr_status tsr_scorer_last(const tsr_scorer *scorer, tsr_bleu *bleu, tsr_chrf *chrf) TSR_MUST_CHECK;

/* The signature of a metric, with the number of references of what was added so far, "nrefs:var" if it varies. Writes
 * into text (cut at `size`; 128 bytes are enough) and returns it. */
TSR_API char *tsr_scorer_signature(const tsr_scorer *scorer, int32_t metric, char *text, size_t size);

/* The score of what was added so far; more may follow. Errors: TSR_ERR_ARGUMENT (a metric that the scorer does not
 * have). */
TSR_API tsr_status tsr_scorer_bleu(const tsr_scorer *scorer, tsr_bleu *bleu) TSR_MUST_CHECK;
TSR_API tsr_status tsr_scorer_chrf(const tsr_scorer *scorer, tsr_chrf *chrf) TSR_MUST_CHECK;
TSR_API tsr_status tsr_scorer_wer(const tsr_scorer *scorer, tsr_wer *wer) TSR_MUST_CHECK;

TSR_API int64_t tsr_scorer_count(const tsr_scorer *scorer); /* sentences added */

/* ------------------------------------------------------------------------------------------------------------------
 * Normalised texts: what two writers of the same speech may write differently is made the same
 *
 * A normaliser gives what Whisper's gives, which its word error rates are computed with. Both write lower case, and
 * remove what stands in brackets and parentheses.
 *
 *   BASIC    for any language: a space for each mark, symbol and punctuation of the text in NFKC
 *   ENGLISH  also removes fillers ("um"), writes contractions, titles and numbers in one way ("can't" -> "can not",
 *            "Mr." -> "mister", "twenty one" -> "21", "five dollars" -> "$5"), letters without diacritics, and words as
 *            a table of spellings has them ("colour" -> "color")
 */
enum { TSR_NORMALIZER_BASIC = 1, TSR_NORMALIZER_ENGLISH = 2 };

/* Of TSR_NORMALIZER_BASIC: letters without diacritics; and a space between user-perceived characters, which makes the
 * word error rate one of characters. */
enum { TSR_NORMALIZE_DIACRITICS = 1, TSR_NORMALIZE_LETTERS = 2 };

typedef struct tsr_normalizer tsr_normalizer;

/* kind: TSR_NORMALIZER_*. flags: TSR_NORMALIZE_*, or 0. spellings: of TSR_NORMALIZER_ENGLISH the path of a JSON object
 * of strings, such as normalizer.json in the folder of a model; otherwise NULL. One thread at a time. *normalizer is
 * the caller's until tsr_normalizer_destroy. Errors: TSR_ERR_ARGUMENT; TSR_ERR_IO, TSR_ERR_FORMAT (no such table),
 * naming the file; TSR_ERR_OUT_OF_MEMORY. */
TSR_API tsr_status tsr_normalizer_create(int32_t kind, int32_t flags, const char *spellings,
                                         tsr_normalizer **normalizer) TSR_MUST_CHECK;
TSR_API void tsr_normalizer_destroy(tsr_normalizer *normalizer); /* takes NULL */

/* The text normalised, in UTF-8, with a NUL behind it; valid until the next call about the normaliser. In time
 * proportional to its length. Errors: TSR_ERR_ARGUMENT, TSR_ERR_OUT_OF_MEMORY. */
TSR_API tsr_status tsr_normalize(tsr_normalizer *normalizer, tsr_span text, tsr_span *normalized) TSR_MUST_CHECK;

/* Has the scorer normalise the texts for the word error rate, and for that alone. The normaliser outlives the scorer
 * and is used in its calls; several scorers of one thread may share it. NULL: texts are as they stand, as at the
 * beginning. Errors: TSR_ERR_ARGUMENT (a scorer without TSR_METRIC_WER, or one that has a sentence already). */
TSR_API tsr_status tsr_scorer_set_normalizer(tsr_scorer *scorer, tsr_normalizer *normalizer) TSR_MUST_CHECK;

/* ------------------------------------------------------------------------------------------------------------------
 * What may be wrong with a translation: repetition, text of the source, a length far from the reference's. Words are
 * those of the tokenizer 13a.
 */
enum {
  TSR_FLAW_EMPTY = 0,   /* no word, where the reference has some */
  TSR_FLAW_CUT = 1,     /* the search ended it: the caller knows */
  TSR_FLAW_REPEATS = 2, /* words two times in a row, or three words in a row that come again, beyond the reference's */
  TSR_FLAW_COPIED = 3, /* the source, or from four words on: half of it from the source, where the reference has less */
  TSR_FLAW_SHORT = 4,  /* under half as many words as the reference, which has four or more */
  TSR_FLAW_LONG = 5,   /* over twice as many words as the reference, and four or more */
  TSR_FLAWS = 6
};

typedef struct tsr_facts {
  int64_t words;
  int64_t reference_words;         /* of the reference whose number of words is nearest */
  int64_t source_words;            /* 0 without a source */
  int64_t repeats[TSR_BLEU_ORDER]; /* how often n-grams of 1 to 4 words come again, beyond the references' */
  int64_t doubled;                 /* words after the same word, beyond the references' */
  int32_t flaws;                   /* bit TSR_FLAW_*; never TSR_FLAW_CUT */
} tsr_facts;

typedef struct tsr_analyser tsr_analyser;

/* One thread at a time. *analyser is the caller's until tsr_analyser_destroy. */
TSR_API tsr_status tsr_analyser_create(tsr_analyser **analyser) TSR_MUST_CHECK;
TSR_API void tsr_analyser_destroy(tsr_analyser *analyser); /* takes NULL */

/* source: NULL if it is not known. n_references is at least 1. Errors: TSR_ERR_ARGUMENT (texts too long),
 * TSR_ERR_OUT_OF_MEMORY. */
TSR_API tsr_status tsr_analyse(tsr_analyser *analyser, tsr_span hypothesis, const tsr_span *references,
                               int32_t n_references, const tsr_span *source, tsr_facts *facts) TSR_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
