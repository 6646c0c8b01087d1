/* SPDX-License-Identifier: Apache-2.0
 *
 * The references to characters of SGML, HTML and XML: &amp; &eacute; &#233; &#xE9;
 */
#ifndef TESSERA_CORE_CHARACTER_REFERENCE_H
#define TESSERA_CORE_CHARACTER_REFERENCE_H

#include <stddef.h>
#include <stdint.h>

/* The bytes of the reference that begins at text[0], '&', and in *code_point what it stands for; 0 if there is none, or
 * none that is known: XML's five names, HTML's for Latin-1, some of typography, and all numbers. A number that is no
 * character stands for U+FFFD. */
size_t tsr_character_reference(const char *text, size_t size, uint32_t *code_point);

#endif
