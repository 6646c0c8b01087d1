/* SPDX-License-Identifier: Apache-2.0
 *
 * A zip archive in memory, within the limits of a job. Entries that are not replaced stay as they are, packed.
 */
#ifndef TESSERA_TOOLS_DOCUMENTS_ARCHIVE_H
#define TESSERA_TOOLS_DOCUMENTS_ARCHIVE_H

#include "tools/tessera/documents/formats.h"

typedef struct doc_archive doc_archive;

/* *archive is closed by doc_archive_close, which takes NULL. The job's bytes outlive it. */
tsr_status doc_archive_open(const doc_job *job, doc_archive **archive) TSR_MUST_CHECK;
void doc_archive_close(doc_archive *archive);

int32_t doc_archive_count(const doc_archive *archive);
const char *doc_archive_name(const doc_archive *archive, int32_t index);
int32_t doc_archive_find(const doc_archive *archive, const char *name); /* -1: there is none */

/* Adds the unpacked bytes of an entry. */
tsr_status doc_archive_read(doc_archive *archive, int32_t index, doc_buffer *bytes) TSR_MUST_CHECK;

/* Takes the bytes of the buffer for an entry. */
tsr_status doc_archive_replace(doc_archive *archive, int32_t index, doc_buffer *bytes) TSR_MUST_CHECK;

/* Adds the whole archive to `out`. The archive can only be closed then. */
tsr_status doc_archive_write(doc_archive *archive, doc_buffer *out) TSR_MUST_CHECK;

#endif
