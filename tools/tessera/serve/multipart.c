/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/serve/multipart.h"

#include <string.h>
#include <strings.h>

const char *multipart_find(const char *text, size_t size, const char *what, size_t what_size)
{
  const char *end = text + size;
  for (const char *at = text; (size_t)(end - at) >= what_size; at++) {
    at = memchr(at, what[0], (size_t)(end - at) - what_size + 1);
    if (!at) {
      return NULL;
    }
    if (memcmp(at, what, what_size) == 0) {
      return at;
    }
  }
  return NULL;
}

enum { MISSING, WHOLE, CUT };

/* The value of `name` in a header's value such as `form-data; name="q"`. CUT: `out` has no room for all of it.
 * Blanks behind a value without quotation marks are none of it. */
static int header_value(const char *header, size_t size, const char *name, char *out, size_t room)
{
  size_t name_size = strlen(name);
  for (size_t i = 0; i < size;) {
    while (i < size && (header[i] == ';' || header[i] == ' ' || header[i] == '\t')) {
      i++;
    }
    size_t begin = i;
    while (i < size && header[i] != '=' && header[i] != ';') {
      i++;
    }
    int is_wanted = i - begin == name_size && strncasecmp(header + begin, name, name_size) == 0;
    if (i == size || header[i] == ';') {
      continue;
    }
    i++;
    size_t used = 0;
    int found = WHOLE, is_quoted = i < size && header[i] == '"';
    i += (size_t)is_quoted;
    for (; i < size && (is_quoted ? header[i] != '"' : header[i] != ';'); i++) {
      if (is_quoted && header[i] == '\\' && i + 1 < size && (header[i + 1] == '"' || header[i + 1] == '\\')) {
        i++;
      }
      if (used + 1 < room) {
        out[used++] = header[i];
      } else {
        found = CUT;
      }
    }
    i += (size_t)(is_quoted && i < size);
    while (!is_quoted && used > 0 && (out[used - 1] == ' ' || out[used - 1] == '\t')) {
      used--;
    }
    out[used] = '\0';
    if (is_wanted) {
      return found;
    }
  }
  out[0] = '\0';
  return MISSING;
}

int multipart_delimiter(const char *content_type, char delimiter[MULTIPART_BOUNDARY_ROOM + 4])
{
  const size_t header = strcspn(content_type, ";");
  memcpy(delimiter, "\r\n--", 5);
  return header_value(content_type + header, strlen(content_type + header), "boundary", delimiter + 4,
                      MULTIPART_BOUNDARY_ROOM) == WHOLE &&
         delimiter[4];
}

/* Whether a part is a file. RFC 7578 rules out the coded name of RFC 5987. Some clients send nothing else where a name
 * is not ASCII: it is kept as it is coded. */
static int find_file_name(const char *disposition, size_t size, multipart_part *one)
{
  return header_value(disposition, size, "filename", one->file_name, sizeof one->file_name) != MISSING ||
         header_value(disposition, size, "filename*", one->file_name, sizeof one->file_name) != MISSING;
}

size_t multipart_headers(const char *text, size_t size, multipart_part *one)
{
  static const char disposition[] = "content-disposition:";
  *one = (multipart_part){0};
  int has_name = 0;
  for (size_t at = 0;;) {
    const char *end = multipart_find(text + at, size - at, "\r\n", 2);
    if (!end) {
      return 0;
    }
    size_t length = (size_t)(end - (text + at));
    if (length == 0) {
      return has_name ? at + 2 : 0;
    }
    size_t prefix = sizeof disposition - 1;
    if (length > prefix && strncasecmp(text + at, disposition, prefix) == 0) {
      const char *value = text + at + prefix;
      has_name = header_value(value, length - prefix, "name", one->name, sizeof one->name) == WHOLE;
      one->is_file = find_file_name(value, length - prefix, one);
    }
    at += length + 2;
  }
}

/* ---- piece by piece ---------------------------------------------------------------------------------------------- */

enum { BEFORE, LINE, BLANKS, HEADERS, VALUE };

/* The first bytes of the buffer are understood. */
static void drop(multipart *m, size_t size)
{
  m->used -= size;
  memmove(m->buffer, m->buffer + size, m->used);
}

static const char *find_delimiter(const multipart *m)
{
  return multipart_find(m->buffer, m->used, m->delimiter, m->mark);
}

/* What is no part of a delimiter, however the body goes on. */
static size_t certain(const multipart *m)
{
  return m->used < m->mark ? 0 : m->used - (m->mark - 1);
}

/* Each step returns 1 if the next may follow at once; 0: it needs more bytes, or the outcome says more. */

static int step_before(multipart *m)
{
  const char *found = find_delimiter(m);
  if (!found) {
    drop(m, certain(m));
    return 0;
  }
  drop(m, (size_t)(found - m->buffer) + m->mark);
  m->state = LINE;
  return 1;
}

/* Behind a delimiter: "--", which ends the form, or the end of its line, before which blanks may stand. */
static int step_line(multipart *m)
{
  if (m->used < 2) {
    return 0;
  }
  const int is_end = memcmp(m->buffer, "--", 2) == 0;
  m->outcome = is_end ? MULTIPART_DONE : MULTIPART_MORE;
  m->state = BLANKS;
  return !is_end;
}

static int step_blanks(multipart *m)
{
  size_t blanks = 0;
  while (blanks < m->used && (m->buffer[blanks] == ' ' || m->buffer[blanks] == '\t')) {
    blanks++;
  }
  drop(m, blanks);
  if (m->used < 2) {
    return 0;
  }
  if (memcmp(m->buffer, "\r\n", 2) != 0) {
    m->outcome = MULTIPART_BAD;
    return 0;
  }
  drop(m, 2);
  m->state = HEADERS;
  return 1;
}

static int step_headers(multipart *m)
{
  const char *end = multipart_find(m->buffer, m->used, "\r\n\r\n", 4);
  if (!end) {
    m->outcome = m->used == sizeof m->buffer ? MULTIPART_BAD : MULTIPART_MORE;
    return 0;
  }
  multipart_part one;
  const size_t size = (size_t)(end - m->buffer) + 4;
  if (multipart_headers(m->buffer, size, &one) != size) {
    m->outcome = MULTIPART_BAD;
    return 0;
  }
  drop(m, size - 2); /* the end of the empty line may begin the next delimiter: a part without a value */
  m->skipped = 2;
  m->state = VALUE;
  m->outcome = m->handlers.begin(m->handlers.user, &one) ? MULTIPART_MORE : MULTIPART_STOPPED;
  return m->outcome == MULTIPART_MORE;
}

static int step_value(multipart *m)
{
  const char *found = find_delimiter(m);
  const size_t size = found ? (size_t)(found - m->buffer) : certain(m);
  const size_t first = size < m->skipped ? size : m->skipped;
  int goes_on = size == first || m->handlers.bytes(m->handlers.user, m->buffer + first, size - first);
  m->skipped -= first;
  if (found && goes_on) {
    goes_on = m->handlers.end(m->handlers.user);
  }
  drop(m, size + (found ? m->mark : 0));
  m->state = found ? LINE : VALUE;
  m->outcome = goes_on ? MULTIPART_MORE : MULTIPART_STOPPED;
  return goes_on && found;
}

int multipart_begin(multipart *m, const char *content_type, const multipart_handlers *handlers)
{
  *m = (multipart){.handlers = *handlers};
  if (!multipart_delimiter(content_type, m->delimiter)) {
    return 0;
  }
  m->mark = strlen(m->delimiter);
  memcpy(m->buffer, "\r\n", 2); /* the first delimiter may stand at the very beginning */
  m->used = 2;
  return 1;
}

int multipart_take(multipart *m, const char *bytes, size_t size)
{
  static int (*const steps[])(multipart *) = {[BEFORE] = step_before,
                                              [LINE] = step_line,
                                              [BLANKS] = step_blanks,
                                              [HEADERS] = step_headers,
                                              [VALUE] = step_value};
  while (size > 0 && m->outcome == MULTIPART_MORE) {
    const size_t room = sizeof m->buffer - m->used, n = size < room ? size : room;
    memcpy(m->buffer + m->used, bytes, n);
    m->used += n;
    bytes += n;
    size -= n;
    while (steps[m->state](m)) {
    }
  }
  return m->outcome;
}
