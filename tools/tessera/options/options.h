/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands and their options as tables. One row per option gives what reads it, what stands in the help text, and what
 * `tessera help --json` tells.
 */
#ifndef TESSERA_TOOLS_OPTIONS_H
#define TESSERA_TOOLS_OPTIONS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What the value of an option is, and where it goes: into the field of the command's session that the row names. A
 * field of a number may have 32 or 64 bits. */
enum {
  TSR_OPTION_FLAG,      /* no value: an int, which becomes `low` */
  TSR_OPTION_SWITCH,    /* true or false; alone it means true: int32_t */
  TSR_OPTION_INTEGER,   /* low .. high: int32_t or int64_t */
  TSR_OPTION_NUMBER,    /* low .. high: float or double */
  TSR_OPTION_PRECISION, /* f32, f16, bf16, int8, int4: tsr_dtype */
  TSR_OPTION_CHOICE,    /* one of `choices`: int32_t, low + its index; or char *, the name itself */
  TSR_OPTION_SET,       /* the same, and may be given again: unsigned, bit low + index is set */
  TSR_OPTION_TEXT,      /* const char *, likewise all below, which tell apart what the text names */
  TSR_OPTION_FILE,
  TSR_OPTION_FOLDER,
  TSR_OPTION_DEVICE,
  TSR_OPTION_VARIANT,  /* a variant of kernels */
  TSR_OPTION_LANGUAGE, /* a code of the model's tokenizer */
  TSR_OPTION_KINDS
};

/* "flag", "file" and so on. Static. */
const char *tsr_option_kind_name(int32_t kind);

/* Values of an option that takes several. */
enum { TSR_INTEGERS = 16, TSR_NAMES = 128 };
typedef struct tsr_integers {
  int32_t values[TSR_INTEGERS];
  int32_t n;
} tsr_integers;

/* They are borrowed from the command line, whose commas are cut. */
typedef struct tsr_names {
  const char *values[TSR_NAMES];
  int32_t n;
} tsr_names;

typedef struct tsr_choice {
  const char *name; /* NULL ends the list */
  const char *help; /* NULL: the name says it */
} tsr_choice;

typedef struct tsr_option tsr_option;
typedef struct tsr_option_table tsr_option_table;

/* An option on a command line. */
typedef struct tsr_option_given {
  const char *command; /* for messages; NULL: none */
  const char *what;    /* "--beam" */
  const tsr_option *row;
  int32_t index; /* of the row in its table */
  void *place;   /* what the table's offsets count from */
} tsr_option_given;

/* Takes a value, NULL for a switch without one. Returns an exit code. The text lives as long as the process. */
typedef int (*tsr_option_take)(const tsr_option_given *given, char *value);

/* A row is an option; or, with `table`, all options of another table, whose fields lie at `offset`; or, with `table`
 * and `name`, the one of that name, with this row's metavar, help and otherwise where they are not NULL. Of an option
 * that comes again, as when all of its table follow, the first row holds. */
struct tsr_option {
  const char *name;    /* without "--"; a row with neither name nor table ends the table */
  const char *metavar; /* "N" */
  int32_t kind;        /* TSR_OPTION_* */
  size_t offset;       /* of the field, see TSR_FIELD */
  size_t size;
  double low, high;          /* of numbers; high below low: any */
  const tsr_choice *choices; /* of CHOICE and SET */
  int32_t is_list;           /* 1: values separated by commas, into tsr_integers or tsr_names */
  int32_t repeats;           /* 1: may be given again, and adds to what is there; likewise */
  int32_t shows_range;       /* 1: the help text tells low and high */
  int32_t tag;               /* for the table's owner */
  tsr_option_take take;      /* reads the value instead of what `kind` says */
  const char *help;          /* without a full stop */
  const char *preset;        /* value before the command line is read; the help text tells it, */
  const char *otherwise;     /* or what happens instead, in words */
  const tsr_option_table *table;
};

/* A member as a row's field. */
#define TSR_FIELD(type, member) .offset = offsetof(type, member), .size = sizeof(((type *)0)->member)

struct tsr_option_table {
  const char *title; /* of its part in help texts; NULL: the part of all tables without */
  const void *rows;  /* tsr_option, or structs that begin with one; the last is empty */
  size_t row_size;   /* 0: of tsr_option */
  int32_t has_given; /* 1: `given` is the offset of a char for each row, which becomes 1 when it is given */
  size_t given;
  tsr_option_take take; /* for all rows without their own */
  /* The default as the help text tells it, where it is not preset or otherwise; writes into text and returns it. */
  const char *(*tell_default)(const tsr_option *row, char *text, size_t size);
};

/* A word of the command line that is no option, in its place. */
typedef struct tsr_operand {
  const char *name; /* "MODEL"; NULL ends the list */
  int32_t kind;     /* TSR_OPTION_TEXT and below */
  size_t offset;    /* const char *; of one that repeats: tsr_names */
  int32_t optional;
  int32_t repeats; /* the last alone */
} tsr_operand;

/* A subcommand, which keeps what it works with in one struct, its session. */
typedef struct tsr_command tsr_command;
struct tsr_command {
  const char *name;      /* "translate" */
  const char *summary;   /* for the list of commands; of a command in another, NULL */
  const char *component; /* where all but name and summary lies, as tsr_command_NAME; NULL: here */
  const char *usage;     /* what follows the name in usage lines, separated by newlines; NULL: the program alone calls
                            it, and no help tells of it */
  const char *intro;     /* paragraphs, separated by empty lines; see tsr_help_print */
  const tsr_option_table *options;
  const tsr_operand *operands; /* NULL: it takes none */
  const char *missing;         /* the message where they are too few, */
  const char *takes;           /* and, in "takes .., but 'x' is given, too", where they are too many; NULL: `missing` */
  const char *notes;           /* paragraphs behind the options */
  void (*print_notes)(FILE *out);     /* before them; NULL: nothing */
  const char *examples;               /* lines */
  const char *parent;                 /* of a command in another: its name */
  const tsr_command *const *commands; /* those within it; NULL ends the list */
  size_t session_size;
  size_t given;                /* offset of a json_t *, which becomes an object of the options that were given, by their
                                  names: each value as a text, true for none. The session's own. 0: not wanted */
  const void *initial;         /* a session before the command line is read; NULL: all zero */
  int (*check)(void *session); /* the command line as a whole; NULL: nothing to check */
  int (*run)(void *session);
  void (*finish)(void *session); /* after a failure, too; NULL: nothing to release */
};

/* The command, or the one in it, that the arguments ask for: makes a session, reads the options into it, runs and
 * finishes it. argv[0] is the command's name. Returns the exit code. */
int tsr_command_run(const tsr_command *command, int argc, char **argv);

/* The command within `command` of that name, or NULL. */
const tsr_command *tsr_command_find(const tsr_command *command, const char *name);

/* "ops, machine": the names of those within it, in `text`. */
const char *tsr_command_list(const tsr_command *command, char *text, size_t size);

/* The name to tell in messages, and where to look for help. */
const char *tsr_command_title(const tsr_command *command);

/* ------------------------------------------------------------------------------------------------------------------
 * A command's options, one after the other
 */
typedef struct tsr_option_entry {
  tsr_option row; /* offsets count from the table's place */
  const tsr_option_table *table;
  int32_t index;     /* of the row in the table */
  size_t offset;     /* of the table's place in the session */
  const char *title; /* of its part of the help text; NULL: the first part */
} tsr_option_entry;

typedef struct tsr_option_list {
  tsr_option_entry *entries;
  int32_t n;
  int32_t room;
} tsr_option_list;

/* All options of a table, of those that it includes too. Exit code; release the list after a failure, too. */
int tsr_option_list_make(const tsr_option_table *table, tsr_option_list *list);
void tsr_option_list_finish(tsr_option_list *list);

/* Row `index` of a table; NULL behind the last. */
const tsr_option *tsr_option_at(const tsr_option_table *table, int32_t index);

#endif
