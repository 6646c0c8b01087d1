/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/spm_writer.h"

#include <stdlib.h>
#include <string.h>

enum { WIRE_VARINT = 0, WIRE_BYTES = 2, WIRE_32 = 5 };

static void add(spm_writer *to, const void *bytes, size_t size)
{
  if (to->room - to->size < size) {
    to->room = 2 * to->room + size;
    to->bytes = realloc(to->bytes, to->room);
    if (!to->bytes)
      abort();
  }
  if (size > 0)
    memcpy(to->bytes + to->size, bytes, size);
  to->size += size;
}

static void add_varint(spm_writer *to, uint64_t value)
{
  for (; value > 0x7F; value >>= 7)
    add(to, (const unsigned char[]){(unsigned char)(value | 0x80)}, 1);
  add(to, (const unsigned char[]){(unsigned char)value}, 1);
}

static void add_bytes(spm_writer *to, uint32_t number, const void *bytes, size_t size)
{
  add_varint(to, number << 3 | WIRE_BYTES);
  add_varint(to, size);
  add(to, bytes, size);
}

void spm_add_piece(spm_writer *model, const char *text, size_t size, float score, int type)
{
  spm_writer piece = {0};
  add_bytes(&piece, 1, text, size);
  add_varint(&piece, 2 << 3 | WIRE_32);
  add(&piece, &score, sizeof score);
  add_varint(&piece, 3 << 3 | WIRE_VARINT);
  add_varint(&piece, (uint64_t)type);
  add_bytes(model, 1, piece.bytes, piece.size);
  spm_finish(&piece);
}

void spm_add_table(spm_writer *model, uint32_t claimed_size, const uint32_t *units, size_t n_units,
                   const char *replacements, size_t replacements_size)
{
  spm_writer table = {0};
  add(&table, &claimed_size, sizeof claimed_size);
  add(&table, units, n_units * sizeof *units);
  add(&table, replacements, replacements_size);
  spm_writer normalizer = {0};
  add_bytes(&normalizer, 2, table.bytes, table.size);
  add_bytes(model, 3, normalizer.bytes, normalizer.size);
  spm_finish(&normalizer);
  spm_finish(&table);
}

void spm_add_pieces(spm_writer *model, const char *const *texts, size_t n_texts)
{
  static const char unknown[] = "<unk>";
  spm_add_piece(model, unknown, sizeof unknown - 1, 0, SPM_UNKNOWN);
  for (size_t i = 0; i < n_texts; i++)
    spm_add_piece(model, texts[i], strlen(texts[i]), -1.0f - 0.125f * (float)i, SPM_NORMAL);
}

void spm_finish(spm_writer *model)
{
  free(model->bytes);
  *model = (spm_writer){0};
}
