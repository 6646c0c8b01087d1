/* SPDX-License-Identifier: Apache-2.0
 *
 * Languages: the codes of each kind in the order of their ids, choosing one, and what to say of a code that is none.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/checkpoint/json.h"
#include "core/text/kinds.h"
#include "core/text/whisper.h"

/* The first MBART_25 are those of the first model. */
enum { MBART_25 = 25 };
static const char *const mbart_codes[] = {
    "ar_AR", "cs_CZ", "de_DE", "en_XX", "es_XX", "et_EE", "fi_FI", "fr_XX", "gu_IN", "hi_IN", "it_IT",
    "ja_XX", "kk_KZ", "ko_KR", "lt_LT", "lv_LV", "my_MM", "ne_NP", "nl_XX", "ro_RO", "ru_RU", "si_LK",
    "tr_TR", "vi_VN", "zh_CN", "af_ZA", "az_AZ", "bn_IN", "fa_IR", "he_IL", "hr_HR", "id_ID", "ka_GE",
    "km_KH", "mk_MK", "ml_IN", "mn_MN", "mr_IN", "pl_PL", "ps_AF", "pt_XX", "sv_SE", "sw_KE", "ta_IN",
    "te_IN", "th_TH", "tl_XX", "uk_UA", "ur_PK", "xh_ZA", "gl_ES", "sl_SI"};

static const char *const m2m100_codes[] = {
    "af", "am", "ar", "ast", "az", "ba",  "be", "bg", "bn", "br", "bs", "ca", "ceb", "cs", "cy", "da", "de",
    "el", "en", "es", "et",  "fa", "ff",  "fi", "fr", "fy", "ga", "gd", "gl", "gu",  "ha", "he", "hi", "hr",
    "ht", "hu", "hy", "id",  "ig", "ilo", "is", "it", "ja", "jv", "ka", "kk", "km",  "kn", "ko", "lb", "lg",
    "ln", "lo", "lt", "lv",  "mg", "mk",  "ml", "mn", "mr", "ms", "my", "ne", "nl",  "no", "ns", "oc", "or",
    "pa", "pl", "ps", "pt",  "ro", "ru",  "sd", "si", "sk", "sl", "so", "sq", "sr",  "ss", "su", "sv", "sw",
    "ta", "th", "tl", "tn",  "tr", "uk",  "ur", "uz", "vi", "wo", "xh", "yi", "yo",  "zh", "zu"};

static const char *const wmt21_codes[] = {"en", "ha", "is", "ja", "cs", "ru", "zh", "de"};

static const char *const nllb_codes[] = {
    "ace_Arab", "ace_Latn", "acm_Arab", "acq_Arab", "aeb_Arab", "afr_Latn", "ajp_Arab", "aka_Latn", "amh_Ethi",
    "apc_Arab", "arb_Arab", "ars_Arab", "ary_Arab", "arz_Arab", "asm_Beng", "ast_Latn", "awa_Deva", "ayr_Latn",
    "azb_Arab", "azj_Latn", "bak_Cyrl", "bam_Latn", "ban_Latn", "bel_Cyrl", "bem_Latn", "ben_Beng", "bho_Deva",
    "bjn_Arab", "bjn_Latn", "bod_Tibt", "bos_Latn", "bug_Latn", "bul_Cyrl", "cat_Latn", "ceb_Latn", "ces_Latn",
    "cjk_Latn", "ckb_Arab", "crh_Latn", "cym_Latn", "dan_Latn", "deu_Latn", "dik_Latn", "dyu_Latn", "dzo_Tibt",
    "ell_Grek", "eng_Latn", "epo_Latn", "est_Latn", "eus_Latn", "ewe_Latn", "fao_Latn", "pes_Arab", "fij_Latn",
    "fin_Latn", "fon_Latn", "fra_Latn", "fur_Latn", "fuv_Latn", "gla_Latn", "gle_Latn", "glg_Latn", "grn_Latn",
    "guj_Gujr", "hat_Latn", "hau_Latn", "heb_Hebr", "hin_Deva", "hne_Deva", "hrv_Latn", "hun_Latn", "hye_Armn",
    "ibo_Latn", "ilo_Latn", "ind_Latn", "isl_Latn", "ita_Latn", "jav_Latn", "jpn_Jpan", "kab_Latn", "kac_Latn",
    "kam_Latn", "kan_Knda", "kas_Arab", "kas_Deva", "kat_Geor", "knc_Arab", "knc_Latn", "kaz_Cyrl", "kbp_Latn",
    "kea_Latn", "khm_Khmr", "kik_Latn", "kin_Latn", "kir_Cyrl", "kmb_Latn", "kon_Latn", "kor_Hang", "kmr_Latn",
    "lao_Laoo", "lvs_Latn", "lij_Latn", "lim_Latn", "lin_Latn", "lit_Latn", "lmo_Latn", "ltg_Latn", "ltz_Latn",
    "lua_Latn", "lug_Latn", "luo_Latn", "lus_Latn", "mag_Deva", "mai_Deva", "mal_Mlym", "mar_Deva", "min_Latn",
    "mkd_Cyrl", "plt_Latn", "mlt_Latn", "mni_Beng", "khk_Cyrl", "mos_Latn", "mri_Latn", "zsm_Latn", "mya_Mymr",
    "nld_Latn", "nno_Latn", "nob_Latn", "npi_Deva", "nso_Latn", "nus_Latn", "nya_Latn", "oci_Latn", "gaz_Latn",
    "ory_Orya", "pag_Latn", "pan_Guru", "pap_Latn", "pol_Latn", "por_Latn", "prs_Arab", "pbt_Arab", "quy_Latn",
    "ron_Latn", "run_Latn", "rus_Cyrl", "sag_Latn", "san_Deva", "sat_Beng", "scn_Latn", "shn_Mymr", "sin_Sinh",
    "slk_Latn", "slv_Latn", "smo_Latn", "sna_Latn", "snd_Arab", "som_Latn", "sot_Latn", "spa_Latn", "als_Latn",
    "srd_Latn", "srp_Cyrl", "ssw_Latn", "sun_Latn", "swe_Latn", "swh_Latn", "szl_Latn", "tam_Taml", "tat_Cyrl",
    "tel_Telu", "tgk_Cyrl", "tgl_Latn", "tha_Thai", "tir_Ethi", "taq_Latn", "taq_Tfng", "tpi_Latn", "tsn_Latn",
    "tso_Latn", "tuk_Latn", "tum_Latn", "tur_Latn", "twi_Latn", "tzm_Tfng", "uig_Arab", "ukr_Cyrl", "umb_Latn",
    "urd_Arab", "uzn_Latn", "vec_Latn", "vie_Latn", "war_Latn", "wol_Latn", "xho_Latn", "ydd_Hebr", "yor_Latn",
    "yue_Hant", "zho_Hans", "zho_Hant", "zul_Latn"};

#define COUNT(codes) (int32_t)(sizeof(codes) / sizeof *(codes))

const tsr_language_list tsr_languages_mbart = {mbart_codes, MBART_25, "%s", "en_XX", TSR_LANGUAGE_START, 1};
const tsr_language_list tsr_languages_mbart50 = {mbart_codes, COUNT(mbart_codes),  "%s",
                                                 "en_XX",     TSR_LANGUAGE_BEFORE, 1};
const tsr_language_list tsr_languages_nllb = {nllb_codes, COUNT(nllb_codes), "%s", "eng_Latn", TSR_LANGUAGE_BEFORE, 1};
/* These are left out of decoded text only if the folder lists them as special. */
const tsr_language_list tsr_languages_m2m100 = {m2m100_codes, COUNT(m2m100_codes), "__%s__",
                                                "en",         TSR_LANGUAGE_BEFORE, 0};
const tsr_language_list tsr_languages_wmt21 = {wmt21_codes, COUNT(wmt21_codes), "__%s__", "en", TSR_LANGUAGE_BEFORE, 0};

void tsr_language_token(const tsr_language_list *list, const char *code, char token[TSR_LANGUAGE_TOKEN])
{
  const char *mark = strstr(list->format, "%s");
  snprintf(token, TSR_LANGUAGE_TOKEN, "%.*s%s%s", (int)(mark - list->format), list->format, code, mark + 2);
}

tsr_status tsr_tokenizer_add_language(tsr_tokenizer *tokenizer, const char *code, const char *token, int32_t id)
{
  enum { STEP = 64 };
  if (tokenizer->n_languages % STEP == 0) {
    size_t size = ((size_t)tokenizer->n_languages + STEP) * sizeof *tokenizer->languages;
    tsr_language *languages = tsr_arena_take(&tokenizer->arena, size);
    if (!languages) {
      return tsr_fail_memory(size);
    }
    if (tokenizer->n_languages > 0) {
      memcpy(languages, tokenizer->languages, (size_t)tokenizer->n_languages * sizeof *languages);
    }
    tokenizer->languages = languages;
  }
  tsr_language *language = &tokenizer->languages[tokenizer->n_languages];
  *language = (tsr_language){tsr_arena_text(&tokenizer->arena, code), tsr_arena_text(&tokenizer->arena, token), id};
  if (!language->code || !language->token) {
    return tsr_fail_memory(strlen(code) + strlen(token) + 2);
  }
  tokenizer->n_languages++;
  return TSR_OK;
}

tsr_status tsr_languages_open(const tsr_language_list *list, tsr_tokenizer_files *files, tsr_tokenizer *tokenizer)
{
  const tsr_vocabulary *vocabulary = tokenizer->side[TSR_SIDE_SOURCE].vocabulary;
  for (int32_t i = 0; i < list->n; i++) {
    char token[TSR_LANGUAGE_TOKEN];
    tsr_language_token(list, list->codes[i], token);
    int32_t id = tsr_vocabulary_find(vocabulary, token, strlen(token));
    if (id >= 0) {
      TSR_TRY(tsr_tokenizer_add_language(tokenizer, list->codes[i], token, id));
    }
  }
  tokenizer->place = list->place;
  return tsr_languages_choose(files, tokenizer, list->source);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Finding one
 */
/* -1: none. A language goes by its code and by its token. */
static int32_t find_language(const tsr_tokenizer *tokenizer, const char *code)
{
  for (int32_t i = 0; i < tokenizer->n_languages; i++) {
    if (strcmp(tokenizer->languages[i].code, code) == 0 || strcmp(tokenizer->languages[i].token, code) == 0) {
      return i;
    }
  }
  return tokenizer->whisper ? tsr_whisper_find_name(tokenizer, code) : -1;
}

enum { LONGEST_CODE = 63 };

static int lower(char c)
{
  return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : (unsigned char)c;
}

/* How many insertions, deletions and replacements of bytes lead from one code to the other, letters' case aside. */
static int32_t edit_distance(const char *a, const char *b)
{
  int32_t row[LONGEST_CODE + 1] = {0};
  int32_t n = (int32_t)strlen(b);
  if (n > LONGEST_CODE) {
    return INT32_MAX / 2; /* the caller adds to it */
  }
  for (int32_t j = 0; j <= n; j++) {
    row[j] = j;
  }
  for (int32_t i = 0; a[i]; i++) {
    int32_t diagonal = row[0];
    row[0] = i + 1;
    for (int32_t j = 0; j < n; j++) {
      int32_t best = diagonal + (lower(a[i]) != lower(b[j]));
      diagonal = row[j + 1];
      if (row[j] + 1 < best) {
        best = row[j] + 1;
      }
      if (diagonal + 1 < best) {
        best = diagonal + 1;
      }
      row[j + 1] = best;
    }
  }
  return row[n];
}

/* Codes that begin as the wanted one does, in its language, are nearer than others: "fra" means "fra_Latn". */
static int32_t distance_to(const char *wanted, const char *code)
{
  int32_t begin = 0;
  while (wanted[begin] && wanted[begin] != '_' && lower(wanted[begin]) == lower(code[begin])) {
    begin++;
  }
  int is_language = begin > 0 && (wanted[begin] == '\0' || wanted[begin] == '_');
  return edit_distance(wanted, code) + (is_language ? 0 : 2 * LONGEST_CODE);
}

/* "a, b, c": the codes nearest to the wanted one. */
static void list_nearest(const tsr_tokenizer *tokenizer, const char *wanted, char *text, size_t size)
{
  enum { NEAREST = 5 };
  char start[LONGEST_CODE + 1];
  snprintf(start, sizeof start, "%s", wanted);
  int32_t taken[NEAREST];
  size_t used = 0;
  for (int32_t n = 0; n < NEAREST && n < tokenizer->n_languages; n++) {
    int32_t best = -1;
    int32_t best_distance = 0;
    for (int32_t i = 0; i < tokenizer->n_languages; i++) {
      int was_taken = 0;
      for (int32_t k = 0; k < n; k++) {
        was_taken |= taken[k] == i;
      }
      int32_t distance = distance_to(start, tokenizer->languages[i].code);
      if (!was_taken && (best < 0 || distance < best_distance)) {
        best = i;
        best_distance = distance;
      }
    }
    taken[n] = best;
    int written = snprintf(text + used, size - used, "%s%s", n ? ", " : "", tokenizer->languages[best].code);
    used += written > 0 && (size_t)written < size - used ? (size_t)written : 0;
  }
}

/* ------------------------------------------------------------------------------------------------------------------
 * Choosing
 */
tsr_status tsr_tokenizer_find_language(const tsr_tokenizer *tokenizer, const char *which, const char *code,
                                       int32_t *index)
{
  if (tokenizer->n_languages == 0) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "the %slanguage %s: a tokenizer of the kind %s without tokens of languages has no "
                    "languages to choose from",
                    which, tsr_quote(code).text, tokenizer->kind->name);
  }
  *index = find_language(tokenizer, code);
  if (*index < 0) {
    char nearest[512] = "";
    list_nearest(tokenizer, code, nearest, sizeof nearest);
    return tsr_fail(TSR_ERR_ARGUMENT, "the %slanguage %s is not one of the %d that this tokenizer has; the nearest: %s",
                    which, tsr_quote(code).text, (int)tokenizer->n_languages, nearest);
  }
  return TSR_OK;
}

static tsr_status choose(tsr_tokenizer *tokenizer, int32_t side, const char *code)
{
  static const char *const names[TSR_SIDES] = {"source ", "target "};
  if (tokenizer->n_languages > 0 && side == TSR_SIDE_SOURCE && tokenizer->place == TSR_LANGUAGE_SOURCE) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "the source language %s: a tokenizer of the kind %s marks only the target language",
                    tsr_quote(code).text, tokenizer->kind->name);
  }
  int32_t found;
  TSR_TRY(tsr_tokenizer_find_language(tokenizer, names[side], code, &found));
  if (tokenizer->place == TSR_LANGUAGE_FIXED && found != tokenizer->language[side]) {
    return tsr_fail(TSR_ERR_ARGUMENT, "the %slanguage %s: the package translates only from %s to %s", names[side],
                    tsr_quote(code).text, tokenizer->languages[0].code, tokenizer->languages[1].code);
  }
  tokenizer->language[side] = found;
  return TSR_OK;
}

static void append(int32_t *ids, int32_t *n, int32_t id)
{
  if (id >= 0) {
    ids[(*n)++] = id;
  }
}

/* What is put around a side's texts. */
static void set_frame(tsr_tokenizer *tokenizer, int32_t side)
{
  if (tokenizer->place == TSR_LANGUAGE_NONE || tokenizer->place == TSR_LANGUAGE_FIXED) {
    return;
  }
  tsr_frame frame = {.n_before = 0};
  if (tokenizer->place == TSR_LANGUAGE_PREFIX) {
    const tsr_whisper *whisper = tokenizer->whisper;
    const int32_t chosen = tsr_speech_language_id(tokenizer, tokenizer->language[side]);
    frame.n_before = tsr_whisper_prefix(whisper, chosen, whisper->task, whisper->has_timestamps, frame.before);
    append(frame.after, &frame.n_after, whisper->tokens.end_of_text);
    tokenizer->side[side].frame = frame;
    return;
  }
  int is_source = tokenizer->place == TSR_LANGUAGE_SOURCE;
  int32_t language = tokenizer->language[is_source ? TSR_SIDE_TARGET : side];
  int32_t id = language >= 0 && !(is_source && side == TSR_SIDE_TARGET) ? tokenizer->languages[language].id : -1;
  if (tokenizer->place == TSR_LANGUAGE_BEFORE || is_source) {
    append(frame.before, &frame.n_before, id);
  }
  append(frame.after, &frame.n_after, tokenizer->side[side].special[TSR_EOS]);
  if (tokenizer->place == TSR_LANGUAGE_AFTER || tokenizer->place == TSR_LANGUAGE_START) {
    append(frame.after, &frame.n_after, id);
  }
  tokenizer->side[side].frame = frame;
}

tsr_status tsr_languages_choose(tsr_tokenizer_files *files, tsr_tokenizer *tokenizer, const char *source)
{
  static const char *const keys[TSR_SIDES] = {"src_lang", "tgt_lang"};
  for (int32_t side = 0; side < TSR_SIDES; side++) {
    const char *code = NULL;
    tsr_config_text(&files->options, keys[side], &code);
    TSR_TRY(tsr_config_status(&files->options));
    if (code) {
      TSR_TRY(tsr_fail_context(choose(tokenizer, side, code), "%s: key \"%s\"", files->options.path, keys[side]));
    } else if (side == TSR_SIDE_SOURCE && source && find_language(tokenizer, source) >= 0) {
      TSR_TRY(choose(tokenizer, side, source));
    }
  }
  for (int32_t side = 0; side < TSR_SIDES; side++) {
    set_frame(tokenizer, side);
  }
  return TSR_OK;
}

tsr_status tsr_tokenizer_set_languages(tsr_tokenizer *tokenizer, const char *source, const char *target)
{
  if (!tokenizer) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_tokenizer_set_languages: tokenizer must not be NULL");
  }
  if (source) {
    TSR_TRY(choose(tokenizer, TSR_SIDE_SOURCE, source));
  }
  if (target) {
    TSR_TRY(choose(tokenizer, TSR_SIDE_TARGET, target));
  }
  for (int32_t side = 0; side < TSR_SIDES; side++) {
    set_frame(tokenizer, side);
  }
  return TSR_OK;
}

int32_t tsr_tokenizer_n_languages(const tsr_tokenizer *tokenizer)
{
  return tokenizer ? tokenizer->n_languages : 0;
}

const char *tsr_tokenizer_language(const tsr_tokenizer *tokenizer, int32_t index)
{
  return tokenizer && index >= 0 && index < tokenizer->n_languages ? tokenizer->languages[index].code : NULL;
}

const char *tsr_tokenizer_chosen_language(const tsr_tokenizer *tokenizer, int32_t side)
{
  if (!tokenizer || (side != TSR_SIDE_SOURCE && side != TSR_SIDE_TARGET)) {
    return NULL;
  }
  return tsr_tokenizer_language(tokenizer, tokenizer->language[side]);
}
