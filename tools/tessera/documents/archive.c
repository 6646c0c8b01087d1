/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/documents/archive.h"

#include <stdlib.h>
#include <string.h>

#include <zip.h>

struct doc_archive {
  const doc_job *job;
  zip_t *zip;
  zip_source_t *source;
  int32_t n;
  int32_t is_changed;
};

static tsr_status fail_zip(const doc_archive *a, zip_error_t *error, const char *entry)
{
  int code = zip_error_code_zip(error);
  const char *colon = entry ? ": " : "";
  tsr_status status = code == ZIP_ER_MEMORY ? TSR_ERR_OUT_OF_MEMORY : TSR_ERR_FORMAT;
  return tsr_fail(status, "%s%s%s: %s", a->job->name, colon, entry ? entry : "", zip_error_strerror(error));
}

static tsr_status check_entry(const doc_archive *a, int32_t index, int64_t *sum)
{
  enum { SMALL = 1 << 20 };
  const doc_job *job = a->job;
  zip_stat_t stat;
  if (zip_stat_index(a->zip, (zip_uint64_t)index, 0, &stat) != 0) {
    return fail_zip(a, zip_get_error(a->zip), NULL);
  }
  const zip_uint64_t needed = ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_ENCRYPTION_METHOD;
  if ((stat.valid & needed) != needed || !stat.name) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: entry %d has no size", job->name, (int)index);
  }
  if (stat.encryption_method != ZIP_EM_NONE) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: the entry %s is encrypted; remove the password first", job->name, stat.name);
  }
  if (stat.comp_size > job->size || stat.size > (zip_uint64_t)job->limits.unpacked ||
      *sum + (int64_t)stat.size > job->limits.unpacked) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: it unpacks to more bytes than the limit of %lld, at the entry %s", job->name,
                    (long long)job->limits.unpacked, stat.name);
  }
  *sum += (int64_t)stat.size;
  if (stat.size > SMALL && stat.size / (stat.comp_size > 0 ? stat.comp_size : 1) > (zip_uint64_t)job->limits.ratio) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: the entry %s is packed 1 to %llu, more than the limit of 1 to %d", job->name,
                    stat.name, (unsigned long long)(stat.size / (stat.comp_size > 0 ? stat.comp_size : 1)),
                    (int)job->limits.ratio);
  }
  return TSR_OK;
}

static tsr_status check_entries(doc_archive *a)
{
  zip_int64_t n = zip_get_num_entries(a->zip, 0);
  if (n < 0 || n > a->job->limits.entries) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: %lld entries are more than the limit of %d", a->job->name, (long long)n,
                    (int)a->job->limits.entries);
  }
  a->n = (int32_t)n;
  int64_t sum = 0;
  tsr_status status = TSR_OK;
  for (int32_t i = 0; i < a->n && status == TSR_OK; i++) {
    status = check_entry(a, i, &sum);
  }
  return status;
}

static tsr_status check_begin(const doc_job *job)
{
  if (job->size >= 8 && memcmp(job->bytes, "\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1", 8) == 0) {
    return tsr_fail(TSR_ERR_FORMAT,
                    "%s: this is an encrypted document, or one of the old binary formats; expected a zip archive",
                    job->name);
  }
  if (job->size < 22 || memcmp(job->bytes, "PK", 2) != 0) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: expected a zip archive, but it does not begin as one", job->name);
  }
  return TSR_OK;
}

tsr_status doc_archive_open(const doc_job *job, doc_archive **archive)
{
  zip_error_t error;
  *archive = NULL;
  tsr_status status = check_begin(job);
  if (status != TSR_OK) {
    return status;
  }
  doc_archive *a = calloc(1, sizeof *a);
  if (!a) {
    return doc_no_memory();
  }
  *archive = a;
  a->job = job;
  zip_error_init(&error);
  a->source = zip_source_buffer_create(job->bytes, job->size, 0, &error);
  if (a->source) {
    zip_source_keep(a->source);
    a->zip = zip_open_from_source(a->source, 0, &error);
    if (!a->zip) {
      zip_source_free(a->source); /* what the archive would have had */
    }
  }
  status = a->zip ? check_entries(a) : fail_zip(a, &error, NULL);
  zip_error_fini(&error);
  return status;
}

void doc_archive_close(doc_archive *archive)
{
  if (archive) {
    if (archive->zip) {
      zip_discard(archive->zip);
    }
    zip_source_free(archive->source);
    free(archive);
  }
}

int32_t doc_archive_count(const doc_archive *archive)
{
  return archive->n;
}

const char *doc_archive_name(const doc_archive *archive, int32_t index)
{
  const char *name = zip_get_name(archive->zip, (zip_uint64_t)index, ZIP_FL_UNCHANGED);
  return name ? name : "";
}

int32_t doc_archive_find(const doc_archive *archive, const char *name)
{
  zip_int64_t index = zip_name_locate(archive->zip, name, 0);
  return index >= 0 ? (int32_t)index : -1;
}

tsr_status doc_archive_read(doc_archive *a, int32_t index, doc_buffer *bytes)
{
  zip_stat_t stat;
  const char *name = doc_archive_name(a, index);
  if (zip_stat_index(a->zip, (zip_uint64_t)index, 0, &stat) != 0) {
    return fail_zip(a, zip_get_error(a->zip), name);
  }
  zip_file_t *file = zip_fopen_index(a->zip, (zip_uint64_t)index, 0);
  if (!file) {
    return fail_zip(a, zip_get_error(a->zip), name);
  }
  tsr_status status = TSR_OK;
  zip_int64_t n = 1;
  while (n > 0 && status == TSR_OK) {
    char block[16384];
    n = zip_fread(file, block, sizeof block);
    if (n < 0) {
      status = fail_zip(a, zip_file_get_error(file), name);
    } else if (bytes->size + (size_t)n > stat.size) {
      status = tsr_fail(TSR_ERR_FORMAT, "%s: %s: more bytes than the %llu that the archive states", a->job->name, name,
                        (unsigned long long)stat.size);
    } else {
      doc_buffer_add(bytes, block, (size_t)n);
      status = doc_buffer_check(bytes);
    }
  }
  zip_fclose(file);
  if (status == TSR_OK && bytes->size != stat.size) {
    status = tsr_fail(TSR_ERR_FORMAT, "%s: %s: ends after %zu of %llu bytes", a->job->name, name, bytes->size,
                      (unsigned long long)stat.size);
  }
  return status;
}

tsr_status doc_archive_replace(doc_archive *a, int32_t index, doc_buffer *bytes)
{
  zip_stat_t stat;
  size_t size;
  char *taken = NULL;
  if (zip_stat_index(a->zip, (zip_uint64_t)index, 0, &stat) != 0) {
    return fail_zip(a, zip_get_error(a->zip), NULL);
  }
  tsr_status status = doc_buffer_take(bytes, &taken, &size);
  if (status != TSR_OK) {
    return status;
  }
  zip_source_t *source = zip_source_buffer(a->zip, taken, size, 1);
  if (!source) {
    free(taken);
    return fail_zip(a, zip_get_error(a->zip), stat.name);
  }
  if (zip_file_replace(a->zip, (zip_uint64_t)index, source, 0) != 0) {
    zip_source_free(source);
    return fail_zip(a, zip_get_error(a->zip), stat.name);
  }
  zip_int32_t method = stat.comp_method == ZIP_CM_STORE ? ZIP_CM_STORE : ZIP_CM_DEFLATE;
  if (zip_set_file_compression(a->zip, (zip_uint64_t)index, method, 0) != 0 ||
      zip_file_set_mtime(a->zip, (zip_uint64_t)index, stat.mtime, 0) != 0) {
    return fail_zip(a, zip_get_error(a->zip), stat.name);
  }
  a->is_changed = 1;
  return TSR_OK;
}

tsr_status doc_archive_write(doc_archive *a, doc_buffer *out)
{
  if (!a->is_changed) {
    doc_buffer_add(out, a->job->bytes, a->job->size);
    return doc_buffer_check(out);
  }
  if (zip_close(a->zip) != 0) {
    return fail_zip(a, zip_get_error(a->zip), NULL);
  }
  a->zip = NULL;
  if (zip_source_open(a->source) != 0) {
    return fail_zip(a, zip_source_error(a->source), NULL);
  }
  zip_int64_t n = 1;
  while (n > 0 && !out->failed) {
    char block[16384];
    n = zip_source_read(a->source, block, sizeof block);
    doc_buffer_add(out, block, n > 0 ? (size_t)n : 0);
  }
  tsr_status status = n < 0 ? fail_zip(a, zip_source_error(a->source), NULL) : doc_buffer_check(out);
  zip_source_close(a->source);
  return status;
}
