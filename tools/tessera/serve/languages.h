/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of languages. A client says `en`, a model's tokenizer `eng_Latn`, `en_XX` or `eng`: one language.
 */
#ifndef TESSERA_SERVE_LANGUAGES_H
#define TESSERA_SERVE_LANGUAGES_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Room for the code of a language, its end included. */
enum { LANGUAGE_ROOM = 24 };

/* The code by which clients know the language that a model, a detector or a client names: ISO 639-1 where there is one,
 * else what ISO 639-3 has, else the name itself, in lower case. As LibreTranslate has them, zh-Hans and zh-Hant are the
 * two Chinese ones, and pt-BR is Brazilian Portuguese. A script that is not the usual one of the language follows as
 * "-Cyrl". Returns 0 if `name` is no language's name: empty, too long, or with other characters than letters, digits,
 * '-' and '_'. */
int language_code(const char *name, char code[LANGUAGE_ROOM]);

/* The English name of a code, written to `name`; the code itself where it is not known. */
void language_name(const char *code, char *name, size_t size);

#ifdef __cplusplus
}
#endif

#endif
