/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/options/help.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/common/message.h"

enum { MOST_COLUMN = 25, TEXT_ROOM = 2048 };

static const tsr_option help_row = {.name = "help", .kind = TSR_OPTION_FLAG, .help = "print this text"};

/* ---- filling ----------------------------------------------------------------------------------------------------- */

/* Code points of `size` bytes. */
static int text_width(const char *text, size_t size)
{
  int width = 0;
  for (; size > 0; size--, text++) {
    width += ((unsigned char)*text & 0xC0) != 0x80;
  }
  return width;
}

/* Bytes of the word that text begins with; of a list without blanks that is wider than `room`, as much as fits. */
static size_t word_size(const char *text, int room)
{
  size_t size = strcspn(text, " \n");
  while (text_width(text, size) > room) {
    size_t shorter = size - 1;
    while (shorter > 0 && text[shorter - 1] != ',') {
      shorter--;
    }
    if (shorter == 0) {
      break;
    }
    size = shorter;
  }
  return size;
}

static void begin_line(FILE *out, int indent, int *column)
{
  fprintf(out, "\n%*s", indent, "");
  *column = indent;
}

void tsr_help_fill(FILE *out, const char *text, int column, int indent)
{
  for (int first = 1; *text; first = 0) {
    size_t size = word_size(text, TSR_HELP_WIDTH - indent);
    int width = text_width(text, size);
    if (!first && column + 1 + width > TSR_HELP_WIDTH) {
      begin_line(out, indent, &column);
    } else if (!first && column > indent) {
      fputc(' ', out);
      column++;
    }
    fprintf(out, "%.*s", (int)size, text);
    column += width;
    text += size;
    if (*text && *text != ' ') { /* a newline, or the rest of a list */
      begin_line(out, indent, &column);
    }
    text += *text == ' ' || *text == '\n';
  }
  fputc('\n', out);
}

void tsr_help_paragraphs(FILE *out, const char *text)
{
  char line[TEXT_ROOM] = "";
  while (*text) {
    size_t size = strcspn(text, "\n");
    int is_verbatim = text[0] == ' ' || size == 0;
    size_t used = strlen(line);
    if (!is_verbatim) {
      snprintf(line + used, sizeof line - used, "%s%.*s", used > 0 ? " " : "", (int)size, text);
    }
    const char *next = text + size + (text[size] == '\n');
    if (line[0] && (is_verbatim || !*next || *next == '\n' || *next == ' ')) {
      tsr_help_fill(out, line, 0, 0);
      line[0] = '\0';
    }
    if (is_verbatim) {
      fprintf(out, "%.*s\n", (int)size, text);
    }
    text = next;
  }
}

/* ---- one option -------------------------------------------------------------------------------------------------- */

/* Appends to a text of TEXT_ROOM bytes. */
static void append(char *text, const char *before, const char *what)
{
  size_t used = strlen(text);
  snprintf(text + used, TEXT_ROOM - used, "%s%s", before, what);
}

static int has_described_choices(const tsr_option *row)
{
  return row->choices && row->choices[0].help;
}

/* ": one, two or three" */
static void append_choices(char *text, const tsr_choice *choices)
{
  const char *before = ": ";
  for (; choices->name; choices++) {
    if (choices->name[0]) {
      append(text, before, choices->name);
      before = choices[1].name && !choices[2].name ? " or " : ", ";
    }
  }
}

/* Writes into text [TEXT_ROOM]: the help text with range, choices and default. */
static void describe(const tsr_option_entry *entry, char *text)
{
  const tsr_option *row = &entry->row;
  char room[128], standard[128];
  snprintf(text, TEXT_ROOM, "%s", row->help);
  if (row->choices && !has_described_choices(row)) {
    append_choices(text, row->choices);
  }
  if (row->shows_range) {
    snprintf(room, sizeof room, "%.10g to %.10g", row->low, row->high);
    append(text, ", ", room);
  }
  const char *value = entry->table && entry->table->tell_default
                          ? entry->table->tell_default(row, standard, sizeof standard)
                          : row->preset;
  if (row->otherwise || (value && value[0])) {
    append(text, "; default: ", row->otherwise ? row->otherwise : value);
  }
  if (row->repeats || row->kind == TSR_OPTION_SET) {
    append(text, "; may be repeated", "");
  }
}

/* "--beam N" */
static int write_head(const tsr_option *row, char *text, size_t size)
{
  const char *end = row->kind == TSR_OPTION_SWITCH ? "[=false]" : "";
  return snprintf(text, size, "--%s%s%s%s", row->name, row->metavar ? " " : "", row->metavar ? row->metavar : "", end);
}

static void print_choices(FILE *out, const tsr_choice *choices, int column)
{
  int width = 0;
  for (const tsr_choice *c = choices; c->name; c++) {
    width = (int)strlen(c->name) > width ? (int)strlen(c->name) : width;
  }
  for (; choices->name; choices++) {
    fprintf(out, "%*s%-*s  ", column, "", width, choices->name);
    tsr_help_fill(out, choices->help, column + width + 2, column + width + 2);
  }
}

static void print_option(FILE *out, const tsr_option_entry *entry, int column)
{
  char head[128], text[TEXT_ROOM];
  int length = 2 + write_head(&entry->row, head, sizeof head);
  fprintf(out, "  %s", head);
  if (length + 2 > column) {
    fputc('\n', out);
    length = 0;
  }
  fprintf(out, "%*s", column - length, "");
  describe(entry, text);
  tsr_help_fill(out, text, column, column);
  if (has_described_choices(&entry->row)) {
    print_choices(out, entry->row.choices, column);
  }
}

/* ---- a command --------------------------------------------------------------------------------------------------- */

/* Where help texts begin: behind the longest option, but for those that are too long. */
static int find_column(const tsr_option_list *list)
{
  int column = 0;
  char head[128];
  for (int32_t i = 0; i <= list->n; i++) {
    int end = 4 + write_head(i < list->n ? &list->entries[i].row : &help_row, head, sizeof head);
    column = end > column && end <= MOST_COLUMN ? end : column;
  }
  return column;
}

/* The options below one title, which is printed before them. */
static void print_part(FILE *out, const tsr_option_list *list, const char *title, int column)
{
  if (title) {
    fputc('\n', out);
    tsr_help_fill(out, title, 0, 0);
  }
  for (int32_t i = 0; i < list->n; i++) {
    if (list->entries[i].title == title) {
      print_option(out, &list->entries[i], column);
    }
  }
}

static void print_options(FILE *out, const tsr_option_list *list)
{
  const tsr_option_entry help = {.row = help_row};
  int column = find_column(list);
  print_part(out, list, NULL, column);
  print_option(out, &help, column);
  for (int32_t i = 0; i < list->n; i++) {
    const char *title = list->entries[i].title;
    int32_t first = 0;
    while (list->entries[first].title != title) {
      first++;
    }
    if (title && first == i) {
      print_part(out, list, title, column);
    }
  }
}

static void print_usage(FILE *out, const tsr_command *command, const char *before)
{
  const char *usage = command->usage;
  for (const char *at = usage; at; at = strchr(at, '\n')) {
    at += at > usage;
    size_t size = strcspn(at, "\n");
    fprintf(out, "%s tessera %s%s%s%s%.*s\n", at == usage ? before : "      ", command->parent ? command->parent : "",
            command->parent ? " " : "", command->name, size > 0 ? " " : "", (int)size, at);
  }
  for (int32_t i = 0; command->commands && command->commands[i]; i++) {
    print_usage(out, command->commands[i], "      ");
  }
}

int tsr_help_print(const tsr_command *command, FILE *out)
{
  tsr_option_list list;
  int code = tsr_option_list_make(command->options, &list);
  if (code == TSR_EXIT_OK) {
    if (command->usage) {
      print_usage(out, command, "Usage:");
      fputc('\n', out);
    }
    tsr_help_paragraphs(out, command->intro);
    fputc('\n', out);
    print_options(out, &list);
    if (command->print_notes) {
      fputc('\n', out);
      command->print_notes(out);
    }
    if (command->notes) {
      fputc('\n', out);
      tsr_help_paragraphs(out, command->notes);
    }
    if (command->examples) {
      fprintf(out, "\nExample%s:\n", strchr(command->examples, '\n') ? "s" : "");
      for (const char *at = command->examples; at; at = strchr(at, '\n')) {
        at += *at == '\n';
        fprintf(out, "  %.*s\n", (int)strcspn(at, "\n"), at);
      }
    }
  }
  tsr_option_list_finish(&list);
  return code;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

/* Members whose value is NULL are left out. */
static void set_text(json_t *object, const char *key, const char *text)
{
  if (text) {
    json_object_set_new(object, key, json_string(text));
  }
}

static json_t *option_json(const tsr_option_entry *entry)
{
  const tsr_option *row = &entry->row;
  char text[TEXT_ROOM];
  json_t *object = json_object();
  set_text(object, "name", row->name);
  set_text(object, "metavar", row->metavar);
  set_text(object, "kind", tsr_option_kind_name(row->kind));
  if ((row->kind == TSR_OPTION_INTEGER || row->kind == TSR_OPTION_NUMBER) && row->low <= row->high) {
    json_object_set_new(object, "low", json_real(row->low));
    json_object_set_new(object, "high", json_real(row->high));
  }
  if (row->choices) {
    json_t *choices = json_array();
    for (const tsr_choice *choice = row->choices; choice->name; choice++) {
      json_t *one = json_object();
      set_text(one, "name", choice->name);
      set_text(one, "help", choice->help);
      json_array_append_new(choices, one);
    }
    json_object_set_new(object, "choices", choices);
  }
  json_object_set_new(object, "is_list", json_boolean(row->is_list));
  json_object_set_new(object, "repeats", json_boolean(row->repeats || row->kind == TSR_OPTION_SET));
  set_text(object, "default", row->preset);
  describe(entry, text);
  set_text(object, "help", text);
  set_text(object, "part", entry->title);
  return object;
}

static json_t *operands_json(const tsr_command *command)
{
  json_t *list = json_array();
  for (const tsr_operand *operand = command->operands; operand && operand->name; operand++) {
    json_t *one = json_pack("{s:s, s:s, s:b, s:b}", "name", operand->name, "kind", tsr_option_kind_name(operand->kind),
                            "optional", (int)operand->optional, "repeats", (int)operand->repeats);
    json_array_append_new(list, one);
  }
  return list;
}

json_t *tsr_help_json(const tsr_command *command)
{
  const tsr_option_entry help = {.row = help_row};
  tsr_option_list list;
  if (tsr_option_list_make(command->options, &list) != TSR_EXIT_OK) {
    tsr_option_list_finish(&list);
    return NULL;
  }
  json_t *object = json_object(), *options = json_array(), *commands = json_array();
  set_text(object, "name", command->name);
  set_text(object, "summary", command->summary);
  set_text(object, "usage", command->usage);
  set_text(object, "intro", command->intro);
  json_object_set_new(object, "operands", operands_json(command));
  for (int32_t i = 0; i < list.n; i++) {
    json_array_append_new(options, option_json(&list.entries[i]));
  }
  json_array_append_new(options, option_json(&help));
  json_object_set_new(object, "options", options);
  set_text(object, "notes", command->notes);
  set_text(object, "examples", command->examples);
  for (int32_t i = 0; command->commands && command->commands[i]; i++) {
    if (command->commands[i]->usage) {
      json_array_append_new(commands, tsr_help_json(command->commands[i]));
    }
  }
  json_object_set_new(object, "commands", commands);
  tsr_option_list_finish(&list);
  return object;
}
