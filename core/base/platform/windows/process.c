/* SPDX-License-Identifier: Apache-2.0
 *
 * Other processes: started, listened to, waited for, ended.
 */
#include <windows.h>
/* after windows.h */
#include <psapi.h>

#include "core/base/platform/windows/internal.h"
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>

enum { STREAMS = 3, PIPE_BYTES = 1 << 16 };

/* The exit code of a process that win_kill ended: one of those that Windows gives to faults. */
static const DWORD killed = 0xE0000009;

typedef struct process {
  pid_t number;
  HANDLE handle;
  HANDLE job; /* its group; NULL: none */
  struct process *next;
} process;

static process *processes; /* those that nobody waited for */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the command line -------------------------------------------------------------------------------------------- */

/* Appends a word so that CommandLineToArgvW finds it again: between quotes, where backslashes count only in front of a
 * quote. Returns the end; to: NULL to count. */
static size_t put_word(wchar_t *to, size_t at, const wchar_t *word)
{
#define PUT(c) ((void)(to ? to[at] = (c) : 0), at++)
  size_t slashes = 0;
  PUT(L'"');
  for (; *word; word++) {
    if (*word == L'"') {
      for (size_t i = 0; i <= slashes; i++) {
        PUT(L'\\');
      }
    }
    slashes = *word == L'\\' ? slashes + 1 : 0;
    PUT(*word);
  }
  for (size_t i = 0; i < slashes; i++) {
    PUT(L'\\');
  }
  PUT(L'"');
#undef PUT
  return at;
}

/* All words in one line; the caller frees it. NULL: errno tells. */
static wchar_t *join_words(char *const *words)
{
  wchar_t *line = NULL;
  size_t size = 0;
  for (size_t i = 0; words[i]; i++) {
    wchar_t *word = win_wide(words[i]);
    const size_t more = word ? put_word(NULL, 0, word) : 0;
    wchar_t *longer = word ? realloc(line, (size + more + 2) * sizeof *line) : NULL;
    if (!longer) {
      free(word);
      free(line);
      return NULL;
    }
    line = longer;
    if (i > 0) {
      line[size++] = L' ';
    }
    size = put_word(line, size, word);
    line[size] = L'\0';
    free(word);
  }
  return line;
}

/* The entries one after the other, each with its end, and another end behind them. */
static wchar_t *join_environment(char *const *entries)
{
  wchar_t *block = calloc(2, sizeof *block);
  size_t size = 0;
  for (size_t i = 0; block && entries[i]; i++) {
    wchar_t *entry = win_wide(entries[i]);
    const size_t more = entry ? wcslen(entry) + 1 : 0;
    wchar_t *longer = entry ? realloc(block, (size + more + 2) * sizeof *block) : NULL;
    if (longer) {
      memcpy(longer + size, entry, more * sizeof *longer);
      size += more;
      longer[size] = longer[size + 1] = L'\0';
    } else {
      free(block);
    }
    free(entry);
    block = longer;
  }
  return block;
}

/* ---- the start --------------------------------------------------------------------------------------------------- */

int win_spawn_streams_init(win_spawn_streams *streams)
{
  *streams = (win_spawn_streams){{-1, -1, -1}};
  return 0;
}

int win_spawn_streams_add(win_spawn_streams *streams, int from, int to)
{
  if (to < 0 || to >= STREAMS) {
    return EBADF;
  }
  streams->source[to] = from;
  return 0;
}

/* Copies that a new process may have; those that were made are closed by the caller. */
static int copy_handles(const win_spawn_streams *streams, HANDLE *handles)
{
  for (int i = 0; i < STREAMS; i++) {
    HANDLE own = (HANDLE)_get_osfhandle(streams->source[i] >= 0 ? streams->source[i] : i);
    if (own == INVALID_HANDLE_VALUE ||
        !DuplicateHandle(GetCurrentProcess(), own, GetCurrentProcess(), &handles[i], 0, TRUE, DUPLICATE_SAME_ACCESS)) {
      return EBADF;
    }
  }
  return 0;
}

/* A group that ends with this process, of which it is the only owner. NULL: none can be had. */
static HANDLE make_job(void)
{
  JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {.BasicLimitInformation.LimitFlags =
                                                     JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE};
  HANDLE job = CreateJobObjectW(NULL, NULL);
  if (job) {
    SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits);
  }
  return job;
}

static void close_handle(HANDLE handle)
{
  if (handle) {
    CloseHandle(handle);
  }
}

/* Does not run yet. Returns 0, or an errno. */
static int create(const wchar_t *program, wchar_t *line, wchar_t *environment, HANDLE *handles,
                  PROCESS_INFORMATION *created)
{
  STARTUPINFOEXW start = {.StartupInfo.cb = sizeof start, .StartupInfo.dwFlags = STARTF_USESTDHANDLES};
  SIZE_T size = 0;
  start.StartupInfo.hStdInput = handles[0];
  start.StartupInfo.hStdOutput = handles[1];
  start.StartupInfo.hStdError = handles[2];
  /* A fault ends the process, and waits for nobody at a dialog: it inherits this mode. */
  SetErrorMode(GetErrorMode() | SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX);
  InitializeProcThreadAttributeList(NULL, 1, 0, &size);
  start.lpAttributeList = malloc(size);
  if (!start.lpAttributeList) {
    return ENOMEM;
  }
  int failed = 0;
  if (!InitializeProcThreadAttributeList(start.lpAttributeList, 1, 0, &size)) {
    win_set_errno(GetLastError());
    failed = errno;
  } else {
    const BOOL done = UpdateProcThreadAttribute(start.lpAttributeList, 0, PROC_THREAD_ATTRIBUTE_HANDLE_LIST, handles,
                                                STREAMS * sizeof *handles, NULL, NULL) &&
                      CreateProcessW(program, line, NULL, NULL, TRUE,
                                     CREATE_SUSPENDED | CREATE_UNICODE_ENVIRONMENT | EXTENDED_STARTUPINFO_PRESENT,
                                     environment, NULL, &start.StartupInfo, created);
    if (!done) {
      win_set_errno(GetLastError());
      failed = errno;
    }
    DeleteProcThreadAttributeList(start.lpAttributeList);
  }
  free(start.lpAttributeList);
  return failed;
}

/* Keeps what there is to know of it, and lets it run. Returns 0, or an errno. */
static int begin(const PROCESS_INFORMATION *created, int is_group, pid_t *number)
{
  process *added = malloc(sizeof *added);
  if (!added) {
    TerminateProcess(created->hProcess, killed);
    CloseHandle(created->hThread);
    CloseHandle(created->hProcess);
    return ENOMEM;
  }
  *added = (process){.number = (pid_t)created->dwProcessId, .handle = created->hProcess};
  added->job = is_group ? make_job() : NULL;
  if (added->job) {
    AssignProcessToJobObject(added->job, added->handle);
  }
  pthread_mutex_lock(&lock);
  added->next = processes;
  processes = added;
  pthread_mutex_unlock(&lock);
  *number = added->number;
  ResumeThread(created->hThread);
  CloseHandle(created->hThread);
  return 0;
}

int win_spawn(pid_t *number, const char *program, const win_spawn_streams *streams,
              const win_spawn_attributes *attributes, char *const *words, char *const *environment)
{
  HANDLE handles[STREAMS] = {NULL};
  PROCESS_INFORMATION created;
  wchar_t *path = win_path(program), *line = join_words(words), *block = join_environment(environment);
  int failed = path && line && block ? copy_handles(streams, handles) : errno;
  if (!failed) {
    failed = create(path, line, block, handles, &created);
  }
  if (!failed) {
    failed = begin(&created, attributes->flags & POSIX_SPAWN_SETPGROUP, number);
  }
  for (int i = 0; i < STREAMS; i++) {
    close_handle(handles[i]);
  }
  free(block);
  free(line);
  free(path);
  return failed;
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

/* The one of that number, taken from the list with `take`; NULL: there is none. */
static process *find(pid_t number, int take)
{
  pthread_mutex_lock(&lock);
  process **link = &processes;
  while (*link && (*link)->number != number) {
    link = &(*link)->next;
  }
  process *found = *link;
  if (found && take) {
    *link = found->next;
  }
  pthread_mutex_unlock(&lock);
  return found;
}

/* As POSIX has it: an exit code, or a signal. */
static int status_of(DWORD code)
{
  static const struct {
    DWORD code;
    int number;
  } signals[] = {
      {STATUS_ACCESS_VIOLATION, SIGSEGV},
      {STATUS_STACK_OVERFLOW, SIGSEGV},
      {STATUS_ILLEGAL_INSTRUCTION, SIGILL},
      {STATUS_PRIVILEGED_INSTRUCTION, SIGILL},
      {STATUS_INTEGER_DIVIDE_BY_ZERO, SIGFPE},
      {STATUS_CONTROL_C_EXIT, SIGINT},
      {killed, SIGKILL},
  };
  for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
    if (signals[i].code == code) {
      return signals[i].number;
    }
  }
  return code >= 0xC0000000 ? SIGABRT : (int)(code & 0xff) << 8;
}

pid_t win_wait4(pid_t number, int *how, int options, struct rusage *usage)
{
  process *found = find(number, 0);
  if (!found) {
    errno = ECHILD;
    return -1;
  }
  if (WaitForSingleObject(found->handle, options & WNOHANG ? 0 : INFINITE) == WAIT_TIMEOUT) {
    return 0;
  }
  DWORD code = 0;
  GetExitCodeProcess(found->handle, &code);
  *how = status_of(code);
  if (usage) {
    win_usage_of(found->handle, usage);
  }
  find(number, 1);
  CloseHandle(found->handle);
  close_handle(found->job);
  free(found);
  return number;
}

int win_kill(pid_t number, int signal)
{
  (void)signal;
  const process *found = find(number < 0 ? -number : number, 0);
  if (!found) {
    errno = ESRCH;
    return -1;
  }
  const BOOL done =
      number < 0 && found->job ? TerminateJobObject(found->job, killed) : TerminateProcess(found->handle, killed);
  if (!done) {
    win_set_errno(GetLastError());
  }
  return done ? 0 : -1;
}

/* ---- pipes ------------------------------------------------------------------------------------------------------- */

int win_pipe2(int ends[2], int flags)
{
  return _pipe(ends, PIPE_BYTES, _O_BINARY | (flags & O_CLOEXEC));
}

/* What poll would say of a pipe. */
static short look_at(int descriptor)
{
  DWORD there = 0;
  HANDLE handle = (HANDLE)_get_osfhandle(descriptor);
  if (!PeekNamedPipe(handle, NULL, 0, NULL, &there, NULL)) {
    return POLLHUP;
  }
  return there > 0 ? POLLIN : 0;
}

int win_poll(struct pollfd *pipes, unsigned n, int milliseconds)
{
  enum { PAUSE_MS = 5 };
  const ULONGLONG end = GetTickCount64() + (ULONGLONG)(milliseconds > 0 ? milliseconds : 0);
  for (;;) {
    int ready = 0;
    for (unsigned i = 0; i < n; i++) {
      pipes[i].revents = pipes[i].fd >= 0 ? look_at(pipes[i].fd) : 0;
      ready += pipes[i].revents != 0;
    }
    if (ready > 0 || (milliseconds >= 0 && GetTickCount64() >= end)) {
      return ready;
    }
    Sleep(PAUSE_MS);
  }
}
