/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/corpus/fingerprint.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/tessera/common/message.h"
#include "tools/tessera/common/path.h"

enum { PIECES = 256, PIECE = 4096 /* bytes */ };

/* Spreads all bits of a number over all (the end of MurmurHash3, by Austin Appleby). */
static uint64_t mix(uint64_t h)
{
  h ^= h >> 33;
  h *= UINT64_C(0xFF51AFD7ED558CCD);
  h ^= h >> 33;
  h *= UINT64_C(0xC4CEB9FE1A85EC53);
  return h ^ h >> 33;
}

uint64_t corpus_hash(const void *bytes, size_t size, uint64_t seed)
{
  const char *next = bytes;
  uint64_t h = mix(seed ^ size);
  for (; size > 0;) {
    uint64_t word = 0;
    size_t n = size < sizeof word ? size : sizeof word;
    memcpy(&word, next, n);
    h = mix(h ^ word);
    next += n;
    size -= n;
  }
  return h;
}

static int fail(const char *path)
{
  tsr_cli_error("%s: cannot be read: %s", path, strerror(errno));
  return TSR_EXIT_INPUT;
}

static int add_file(const char *path, int64_t size, uint64_t *hash)
{
  char piece[PIECE];
  FILE *file = fopen(path, "rb");
  int code = file ? TSR_EXIT_OK : fail(path);
  *hash = corpus_hash(&size, sizeof size, *hash);
  int64_t step = size / PIECES > PIECE ? size / PIECES : PIECE;
  for (int64_t at = 0; at < size && code == TSR_EXIT_OK; at += step) {
    size_t got = fseeko(file, (off_t)at, SEEK_SET) == 0 ? fread(piece, 1, sizeof piece, file) : 0;
    if (got == 0) {
      code = fail(path);
    }
    *hash = corpus_hash(piece, got, *hash);
  }
  if (file) {
    fclose(file);
  }
  return code;
}

/* The files of a folder, in any order. */
static int add_folder(const char *folder, uint64_t *hash)
{
  DIR *entries = opendir(folder);
  int code = entries ? TSR_EXIT_OK : fail(folder);
  for (struct dirent *entry; code == TSR_EXIT_OK && (entry = readdir(entries)) != NULL;) {
    struct stat facts;
    uint64_t own = corpus_hash(entry->d_name, strlen(entry->d_name), 0);
    char *path = path_join(folder, entry->d_name);
    if (!path) {
      code = tsr_cli_no_memory();
    } else if (stat(path, &facts) == 0 && S_ISREG(facts.st_mode)) {
      code = add_file(path, (int64_t)facts.st_size, &own);
      *hash += own;
    }
    free(path);
  }
  if (entries) {
    closedir(entries);
  }
  return code;
}

int corpus_fingerprint(const char *path, char text[FINGERPRINT_ROOM])
{
  struct stat facts;
  uint64_t hash = 0;
  if (stat(path, &facts) != 0) {
    return fail(path);
  }
  int code = S_ISDIR(facts.st_mode) ? add_folder(path, &hash) : add_file(path, (int64_t)facts.st_size, &hash);
  snprintf(text, FINGERPRINT_ROOM, "%016" PRIx64, hash);
  return code;
}
