/* SPDX-License-Identifier: Apache-2.0
 *
 * What Tessera's sources use of POSIX and the C library for Windows lacks, or has in another meaning. Every C file of a
 * build for Windows begins with this header (meson.build, -include): a source says `open` and means win_open. As POSIX
 * has it,
 *
 *   - names of files, arguments and the environment are UTF-8, and may be longer than 260 characters; a name may be
 *     written with '/', and what is returned is;
 *   - files are bytes: nothing turns a line's end into two characters;
 *   - a file that is open may be renamed, replaced and removed;
 *   - errno tells what failed.
 *
 * Threads come from winpthreads.
 */
#ifndef TESSERA_CORE_BASE_PLATFORM_WINDOWS_POSIX_H
#define TESSERA_CORE_BASE_PLATFORM_WINDOWS_POSIX_H

#define tell io_tell /* a name that sources have, too */

#include <direct.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <malloc.h>
#include <process.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
#undef tell

#ifndef WIN_INSIDE /* this room itself calls the C library */
#define WIN_NAMES
#endif

/* Files. */
#undef fstat
#undef ftruncate
#undef lseek
#undef stat
#ifndef O_CLOEXEC
#define O_CLOEXEC _O_NOINHERIT
#endif
#define AT_FDCWD    (-100)
#define O_DIRECTORY 0x1000000
#define O_NOFOLLOW  0x2000000
#define O_NONBLOCK  0x4000000
#ifndef S_IFLNK
#define S_IFLNK 0120000
#endif
#ifndef S_ISLNK
#define S_ISLNK(mode) (((mode)&S_IFMT) == S_IFLNK)
#endif
#ifndef S_IWGRP
#define S_IWGRP 0020
#define S_IWOTH 0002
#endif
#ifndef ELOOP
#define ELOOP 114
#endif
#ifndef EDQUOT
#define EDQUOT 10069
#endif

struct win_stat {
  uint64_t st_dev; /* the volume's serial number */
  uint64_t st_ino;
  unsigned st_mode;
  unsigned st_nlink;
  unsigned st_uid; /* always 0, as geteuid() */
  int64_t st_size;
  time_t st_mtime;
  struct timespec st_mtim;
};

int win_open(const char *path, int flags, ...);
int win_stat(const char *path, struct win_stat *info);
int win_lstat(const char *path, struct win_stat *info);
int win_fstat(int descriptor, struct win_stat *info);
int win_access(const char *path, int wanted);
int win_unlink(const char *path);
int win_remove(const char *path);
int win_rename(const char *from, const char *to);
int win_mkdir(const char *path, unsigned mode);
int win_rmdir(const char *path);
int win_fsync(int descriptor);
int win_ftruncate(int descriptor, int64_t size);
ssize_t win_read(int descriptor, void *bytes, size_t size);
ssize_t win_write(int descriptor, const void *bytes, size_t size);
ssize_t win_pread(int descriptor, void *bytes, size_t size, int64_t at);
int64_t win_lseek(int descriptor, int64_t offset, int whence);
char *win_realpath(const char *path, char *resolved);              /* resolved: NULL */
ssize_t win_readlink(const char *path, char *target, size_t size); /* knows /proc/self/exe, the running program */
char *win_getcwd(char *path, size_t size);
int win_chdir(const char *path);
int win_chmod(const char *path, unsigned mode);
int win_symlink(const char *target, const char *path); /* a second name where the user may make no links */
int win_utimensat(int folder, const char *path, const struct timespec times[2], int flags); /* folder: AT_FDCWD */
int win_mkstemp(char *path);
char *win_mkdtemp(char *path);
#ifdef WIN_NAMES
#define stat      win_stat
#define lstat     win_lstat
#define fstat     win_fstat
#define open      win_open
#define access    win_access
#define unlink    win_unlink
#define remove    win_remove
#define rename    win_rename
#define mkdir     win_mkdir
#define rmdir     win_rmdir
#define fsync     win_fsync
#define fdatasync win_fsync
#define ftruncate win_ftruncate
#define read      win_read
#define write     win_write
#define pread     win_pread
#define lseek     win_lseek
#define realpath  win_realpath
#define readlink  win_readlink
#define getcwd    win_getcwd
#define chdir     win_chdir
#define chmod     win_chmod
#define symlink   win_symlink
#define utimensat win_utimensat
#undef mkstemp
#define mkstemp win_mkstemp
#define mkdtemp win_mkdtemp
#endif

/* A lock of the whole file, which goes with the descriptor. */
enum { LOCK_EX = 2, LOCK_NB = 4 };
int win_flock(int descriptor, int operation);
#ifdef WIN_NAMES
#define flock win_flock
#endif

/* Streams. */
FILE *win_fopen(const char *path, const char *mode);
FILE *win_fdopen(int descriptor, const char *mode);
FILE *win_open_memstream(char **text, size_t *size);
int win_fflush(FILE *file);
int win_fclose(FILE *file);
ssize_t win_getline(char **line, size_t *room, FILE *file);
#ifdef WIN_NAMES
#define fopen          win_fopen
#define fdopen         win_fdopen
#define open_memstream win_open_memstream
#define fflush         win_fflush
#define fclose         win_fclose
#define getline        win_getline
#endif

/* Folders. */
typedef struct win_folder win_folder;
struct win_dirent {
  char d_name[780]; /* 260 characters of UTF-16 */
};
win_folder *win_opendir(const char *path);
struct win_dirent *win_readdir(win_folder *folder);
int win_closedir(win_folder *folder);
int win_scandir(const char *path, struct win_dirent ***entries, int (*is_wanted)(const struct win_dirent *),
                int (*compare)(const struct win_dirent **, const struct win_dirent **));
#ifdef WIN_NAMES
#define DIR      win_folder
#define dirent   win_dirent
#define opendir  win_opendir
#define readdir  win_readdir
#define closedir win_closedir
#define scandir  win_scandir
#endif

/* The environment. What win_getenv returns stays valid. */
char *win_getenv(const char *name);
int win_setenv(const char *name, const char *value, int overwrite);
char **win_environ(void); /* valid until it is called again */
int win_unsetenv(const char *name);
#ifdef WIN_NAMES
#define getenv   win_getenv
#define setenv   win_setenv
#define unsetenv win_unsetenv
#undef environ
#define environ win_environ()
#endif

/* The machine. */
#undef CLOCK_THREAD_CPUTIME_ID /* it counts time slices */
enum { _SC_PAGESIZE = 1, _SC_PHYS_PAGES, _SC_NPROCESSORS_ONLN };
typedef struct {
  uint64_t processors; /* a bit each; those of one group of Windows */
} cpu_set_t;
#define CPU_SETSIZE       64
#define CPU_ZERO(set)     ((void)((set)->processors = 0))
#define CPU_CLR(i, set)   ((void)((set)->processors &= ~(1ull << (i))))
#define CPU_ISSET(i, set) ((int)((set)->processors >> (i)&1))
#define CPU_COUNT(set)    __builtin_popcountll((set)->processors)
long win_sysconf(int name);
int win_core_count(void);                                           /* that the process may use; 0: not known */
int win_getaffinity(int thread, size_t size, cpu_set_t *set);       /* of the process; thread: 0 */
int win_setaffinity(int thread, size_t size, const cpu_set_t *set); /* of the calling thread; thread: 0 */
int win_getcpu(void);
unsigned win_geteuid(void);
int win_gethostname(char *name, size_t size);
#ifdef WIN_NAMES
#undef sched_getaffinity
#undef sched_setaffinity
#define sched_getaffinity win_getaffinity
#define sched_setaffinity win_setaffinity
#define sched_getcpu      win_getcpu
#define sysconf           win_sysconf
#define geteuid           win_geteuid
#define getuid            win_geteuid
#define gethostname       win_gethostname
#endif

/* Signals: SIGINT is Ctrl-C, SIGTERM is Ctrl-Break and the end of the console. They arrive in a thread of their own. No
 * thread can be spared them. */
typedef uint64_t win_sigset;
struct win_sigaction {
  void (*sa_handler)(int);
  win_sigset sa_mask;
  int sa_flags;
};
#define SA_RESETHAND 2
#define SIG_SETMASK  2
#ifndef SIGKILL
#define SIGKILL 9
#endif
#ifndef SIGUSR1
#define SIGUSR1 10 /* never arrives */
#endif
#ifndef SIGPIPE
#define SIGPIPE 13
#endif
#ifndef SIGXFSZ
#define SIGXFSZ 25
#endif
int win_sigaction(int number, const struct win_sigaction *action, struct win_sigaction *before);
void (*win_signal(int number, void (*handler)(int)))(int);
int win_no_mask(int how, const win_sigset *set, win_sigset *before);
int win_sigfillset(win_sigset *set);
#ifdef WIN_NAMES
#define sigset_t  win_sigset
#define sigaction win_sigaction
#define signal    win_signal
#undef pthread_sigmask
#define pthread_sigmask win_no_mask
#define sigfillset      win_sigfillset
#endif

/* Ends a process that posix_spawn started; number < 0: its group. signal: SIGKILL. */
int win_kill(pid_t number, int signal);

/* A pipe. flags: 0 or O_CLOEXEC. */
int win_pipe2(int ends[2], int flags);
#ifdef WIN_NAMES
#define kill  win_kill
#define pipe2 win_pipe2
#endif

/* The time as UTC. */
struct tm *win_gmtime_r(const time_t *time, struct tm *utc);
#ifdef WIN_NAMES
#undef gmtime_r
#define gmtime_r win_gmtime_r
#endif

/* Waits until the process is ended. */
int win_pause(void);
#ifdef WIN_NAMES
#define pause win_pause
#endif

/* Text. */
char *win_strndup(const char *text, size_t most);
char *win_strsep(char **text, const char *separators);
const char *win_strsignal(int number);
#ifdef WIN_NAMES
#define strndup   win_strndup
#define strsep    win_strsep
#define strsignal win_strsignal
#endif

/* A program's `main` is called by this room's (main.c), with its arguments in UTF-8. */
#ifdef WIN_NAMES
#define main win_main
#endif
#endif
