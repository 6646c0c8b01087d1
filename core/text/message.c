/* SPDX-License-Identifier: Apache-2.0 */
#include "core/text/message.h"

#include <stdlib.h>
#include <string.h>

enum { WIRE_VARINT = 0, WIRE_BYTES = 2, WIRE_32 = 5 };

void tsr_message_finish(tsr_message *message)
{
  free(message->bytes);
  *message = (tsr_message){0};
}

void tsr_message_raw(tsr_message *message, const void *bytes, size_t size)
{
  if (message->failed || size == 0) {
    return;
  }
  if (message->room - message->size < size) {
    size_t room = 2 * message->room + size;
    unsigned char *grown = realloc(message->bytes, room);
    if (!grown) {
      message->failed = 1;
      return;
    }
    message->bytes = grown;
    message->room = room;
  }
  memcpy(message->bytes + message->size, bytes, size);
  message->size += size;
}

static void add_number(tsr_message *message, uint64_t value)
{
  unsigned char bytes[10];
  size_t size = 0;
  for (; value > 0x7F; value >>= 7) {
    bytes[size++] = (unsigned char)(value | 0x80);
  }
  bytes[size++] = (unsigned char)value;
  tsr_message_raw(message, bytes, size);
}

void tsr_message_varint(tsr_message *message, uint32_t number, uint64_t value)
{
  add_number(message, (uint64_t)number << 3 | WIRE_VARINT);
  add_number(message, value);
}

void tsr_message_float(tsr_message *message, uint32_t number, float value)
{
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  unsigned char bytes[4];
  for (int i = 0; i < 4; i++) {
    bytes[i] = (unsigned char)(bits >> 8 * i);
  }
  add_number(message, (uint64_t)number << 3 | WIRE_32);
  tsr_message_raw(message, bytes, sizeof bytes);
}

void tsr_message_bytes(tsr_message *message, uint32_t number, const void *bytes, size_t size)
{
  add_number(message, (uint64_t)number << 3 | WIRE_BYTES);
  add_number(message, size);
  tsr_message_raw(message, bytes, size);
}

void tsr_message_piece(tsr_message *model, const char *text, size_t size, float score, int type)
{
  enum { TEXT = 1, SCORE = 2, TYPE = 3 };
  tsr_message piece = {0};
  tsr_message_bytes(&piece, TEXT, text, size);
  tsr_message_float(&piece, SCORE, score);
  tsr_message_varint(&piece, TYPE, (uint64_t)type);
  tsr_message_bytes(model, TSR_MODEL_PIECE, piece.bytes, piece.size);
  model->failed |= piece.failed;
  tsr_message_finish(&piece);
}
