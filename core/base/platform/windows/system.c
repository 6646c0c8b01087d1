/* SPDX-License-Identifier: Apache-2.0
 *
 * The environment, the machine, and what interrupts a program.
 */
#include <windows.h>
/* after windows.h */
#include <psapi.h>

#include "core/base/platform/windows/internal.h"
#include <pwd.h>
#include <sys/resource.h>
#include <sys/utsname.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Values that were handed out. */
typedef struct value {
  char *name;
  char *text;
  struct value *next;
} value;

static value *values;

/* The variable as Windows has it; NULL if it is not set. The caller frees it. */
static char *read_variable(const char *name)
{
  wchar_t *wide_name = win_wide(name);
  wchar_t *wide = NULL;
  char *text = NULL;
  DWORD room = wide_name ? GetEnvironmentVariableW(wide_name, NULL, 0) : 0;
  if (room > 0) {
    wide = malloc(room * sizeof *wide);
  }
  if (wide && (GetEnvironmentVariableW(wide_name, wide, room) < room)) {
    text = win_narrow(wide);
  }
  free(wide);
  free(wide_name);
  return text;
}

/* Kept so that it stays valid; one of the same text is returned again. Under the lock. */
static char *keep(const char *name, char *text)
{
  for (value *known = values; known; known = known->next) {
    if (strcmp(known->name, name) == 0 && strcmp(known->text, text) == 0) {
      free(text);
      return known->text;
    }
  }
  value *added = malloc(sizeof *added);
  char *copy = added ? _strdup(name) : NULL;
  if (!copy) {
    free(added);
    free(text);
    return NULL;
  }
  *added = (value){.name = copy, .text = text, .next = values};
  values = added;
  return text;
}

char *win_getenv(const char *name)
{
  pthread_mutex_lock(&lock);
  char *text = read_variable(name);
  text = text ? keep(name, text) : NULL;
  pthread_mutex_unlock(&lock);
  return text;
}

static int set_variable(const char *name, const char *text)
{
  wchar_t *wide_name = win_wide(name), *wide = text ? win_wide(text) : NULL;
  const BOOL done = wide_name && (wide || !text) && SetEnvironmentVariableW(wide_name, wide);
  free(wide_name);
  free(wide);
  return done ? 0 : -1;
}

int win_setenv(const char *name, const char *text, int overwrite)
{
  return !overwrite && win_getenv(name) ? 0 : set_variable(name, text);
}

int win_unsetenv(const char *name)
{
  (void)set_variable(name, NULL);
  return 0;
}

char **win_environ(void)
{
  static char **entries;
  static size_t n;
  wchar_t *block = GetEnvironmentStringsW();
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < n; i++) {
    free(entries[i]);
  }
  n = 0;
  for (const wchar_t *at = block; at && *at; at += wcslen(at) + 1) {
    char **longer = realloc(entries, (n + 2) * sizeof *entries);
    char *entry = longer ? win_narrow(at) : NULL;
    entries = longer ? longer : entries;
    if (entry) {
      entries[n++] = entry;
      entries[n] = NULL;
    }
  }
  pthread_mutex_unlock(&lock);
  if (block) {
    FreeEnvironmentStringsW(block);
  }
  return n > 0 ? entries : NULL;
}

long win_sysconf(int name)
{
  SYSTEM_INFO system;
  MEMORYSTATUSEX memory = {.dwLength = sizeof memory};
  GetSystemInfo(&system);
  GlobalMemoryStatusEx(&memory);
  switch (name) {
  case _SC_PAGESIZE:
    return (long)system.dwPageSize;
  case _SC_PHYS_PAGES:
    return (long)(memory.ullTotalPhys / system.dwPageSize);
  case _SC_NPROCESSORS_ONLN:
    return (long)system.dwNumberOfProcessors;
  default:
    errno = EINVAL;
    return -1;
  }
}

int win_getaffinity(int thread, size_t size, cpu_set_t *set)
{
  (void)thread, (void)size;
  DWORD_PTR process = 0, system = 0;
  if (!GetProcessAffinityMask(GetCurrentProcess(), &process, &system)) {
    win_set_errno(GetLastError());
    return -1;
  }
  set->processors = process;
  return 0;
}

int win_setaffinity(int thread, size_t size, const cpu_set_t *set)
{
  (void)thread, (void)size;
  if (SetThreadAffinityMask(GetCurrentThread(), set->processors) == 0) {
    win_set_errno(GetLastError());
    return -1;
  }
  return 0;
}

int win_getcpu(void)
{
  return (int)GetCurrentProcessorNumber();
}

int win_core_count(void)
{
  cpu_set_t allowed;
  DWORD size = 0;
  (void)GetLogicalProcessorInformation(NULL, &size);
  SYSTEM_LOGICAL_PROCESSOR_INFORMATION *parts = malloc(size);
  int n = 0;
  if (parts && win_getaffinity(0, sizeof allowed, &allowed) == 0 && GetLogicalProcessorInformation(parts, &size)) {
    for (DWORD i = 0; i < size / sizeof *parts; i++) {
      n += parts[i].Relationship == RelationProcessorCore && (parts[i].ProcessorMask & allowed.processors) != 0;
    }
  }
  free(parts);
  return n;
}

unsigned win_geteuid(void)
{
  return 0;
}

struct tm *win_gmtime_r(const time_t *time, struct tm *utc)
{
  return gmtime_s(utc, time) == 0 ? utc : NULL;
}

struct passwd *win_getpwuid(unsigned user)
{
  static struct passwd found;
  (void)user;
  found.pw_name = win_getenv("USERNAME");
  return found.pw_name ? &found : NULL;
}

int win_gethostname(char *name, size_t size)
{
  const char *found = win_getenv("COMPUTERNAME");
  if (!found) {
    errno = ENOENT;
    return -1;
  }
  snprintf(name, size, "%s", found);
  return 0;
}

int win_uname(struct utsname *system)
{
  LONG(WINAPI * get_version)(OSVERSIONINFOW *) = NULL;
  OSVERSIONINFOW version = {.dwOSVersionInfoSize = sizeof version};
  SYSTEM_INFO machine;
  /* GetVersionEx tells of no version that the program does not name. */
  *(void **)&get_version = (void *)GetProcAddress(GetModuleHandleW(L"ntdll.dll"), "RtlGetVersion");
  if (get_version) {
    get_version(&version);
  }
  GetNativeSystemInfo(&machine);
  *system = (struct utsname){.sysname = "Windows"};
  snprintf(system->release, sizeof system->release, "%lu.%lu.%lu", version.dwMajorVersion, version.dwMinorVersion,
           version.dwBuildNumber);
  snprintf(system->machine, sizeof system->machine, "%s",
           machine.wProcessorArchitecture == PROCESSOR_ARCHITECTURE_AMD64 ? "x86_64" : "aarch64");
  return 0;
}

static struct timeval duration(FILETIME time)
{
  const uint64_t ticks = (uint64_t)time.dwHighDateTime << 32 | time.dwLowDateTime;
  return (struct timeval){.tv_sec = (long)(ticks / 10000000), .tv_usec = (long)(ticks / 10 % 1000000)};
}

int win_getrusage(int who, struct rusage *usage)
{
  (void)who;
  return win_usage_of(GetCurrentProcess(), usage);
}

int win_usage_of(void *process, struct rusage *usage)
{
  FILETIME begin, end, kernel, user;
  PROCESS_MEMORY_COUNTERS memory;
  *usage = (struct rusage){.ru_maxrss = 0};
  if (!GetProcessTimes(process, &begin, &end, &kernel, &user) ||
      !GetProcessMemoryInfo(process, &memory, sizeof memory)) {
    win_set_errno(GetLastError());
    return -1;
  }
  usage->ru_utime = duration(user);
  usage->ru_stime = duration(kernel);
  usage->ru_maxrss = (long)(memory.PeakWorkingSetSize / 1024);
  return 0;
}

/* Signals. */
enum { SIGNALS = 32 };
static struct win_sigaction actions[SIGNALS];
static int is_watching;

static BOOL WINAPI on_event(DWORD event)
{
  const int number = event == CTRL_C_EVENT ? SIGINT : SIGTERM;
  pthread_mutex_lock(&lock);
  const struct win_sigaction action = actions[number];
  if (action.sa_flags & SA_RESETHAND) {
    actions[number].sa_handler = SIG_DFL;
  }
  pthread_mutex_unlock(&lock);
  if (action.sa_handler == SIG_DFL) {
    return FALSE; /* Windows ends the program */
  }
  if (action.sa_handler != SIG_IGN) {
    action.sa_handler(number);
  }
  return TRUE;
}

int win_sigaction(int number, const struct win_sigaction *action, struct win_sigaction *before)
{
  if (number <= 0 || number >= SIGNALS) {
    errno = EINVAL;
    return -1;
  }
  pthread_mutex_lock(&lock);
  if (before) {
    *before = actions[number];
  }
  if (action) {
    actions[number] = *action;
    if (!is_watching && (number == SIGINT || number == SIGTERM)) {
      is_watching = SetConsoleCtrlHandler(on_event, TRUE);
    }
  }
  pthread_mutex_unlock(&lock);
  return 0;
}

void (*win_signal(int number, void (*handler)(int)))(int)
{
  const struct win_sigaction action = {.sa_handler = handler};
  struct win_sigaction before = {.sa_handler = SIG_ERR};
  /* Faults of the program itself stay with the C library. */
  if (number == SIGABRT || number == SIGFPE || number == SIGILL || number == SIGSEGV) {
    return signal(number, handler);
  }
  return win_sigaction(number, &action, &before) == 0 ? before.sa_handler : SIG_ERR;
}

int win_no_mask(int how, const win_sigset *set, win_sigset *before)
{
  (void)how, (void)set;
  if (before) {
    *before = 0;
  }
  return 0;
}

int win_sigfillset(win_sigset *set)
{
  *set = UINT64_MAX;
  return 0;
}

int win_pause(void)
{
  Sleep(INFINITE);
  errno = EINTR;
  return -1;
}
