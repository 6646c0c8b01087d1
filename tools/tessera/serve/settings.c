/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/serve/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "tools/tessera/common/message.h"
#include "tools/tessera/options/store.h"

#define FIELD(member) TSR_FIELD(serve_settings, member)

enum { MOST = 1 << 30, MOST_KIB = 1 << 20 };

static const tsr_option rows[N_SERVE_OPTIONS + 1] = {
    {"models", "FOLDER", TSR_OPTION_FOLDER, FIELD(models),
     .help = "every model folder below this one is served: a direction, or all pairs of its languages"},
    {"listen", "ADDRESS:PORT", TSR_OPTION_TEXT, FIELD(listen), .preset = "127.0.0.1:5000",
     .help = "where to listen; port 0 takes a free one, and the server prints it"},
    {"config", "FILE", TSR_OPTION_FILE, FIELD(config),
     .help = "settings in YAML or JSON, with the names of these options; the command line comes first; SIGHUP reads "
             "it anew"},
    {"device", "D,..", TSR_OPTION_DEVICE, FIELD(devices), .is_list = 1, .repeats = 1,
     .help = "devices that compute; several compute side by side", .otherwise = "TESSERA_DEVICE, else auto"},
    {"split", NULL, TSR_OPTION_SWITCH, FIELD(split), .preset = "false",
     .help = "split each model over the devices by their memory, as for `translate`"},
    {"direction", "FOLDER=S-T,..", TSR_OPTION_TEXT, FIELD(directions), .is_list = 1, .repeats = 1,
     .help = "the languages of a model folder, by its name below --models, where its files do not tell them: "
             "demo=en-fr; several sources or targets are joined by '+': mul=de+fr-en"},
    {"precision", "P", TSR_OPTION_PRECISION, FIELD(precision), .help = "type of the weights, as for `translate`"},
    {"batch", "N", TSR_OPTION_INTEGER, FIELD(batch), 1, 1024, .help = "texts that are computed at once",
     .otherwise = "32, and fewer with a wide beam on a CPU"},
    {"workers", "N", TSR_OPTION_INTEGER, FIELD(workers), 1, 1024, .help = "batches computed side by side",
     .otherwise = "as many as the device executes side by side"},
    {"max-source", "N", TSR_OPTION_INTEGER, FIELD(max_source), 1, INT32_MAX,
     .help = "tokens of a line at most; a longer line is translated in parts", .otherwise = "the model's positions"},
    {"memory", "MIB", TSR_OPTION_INTEGER, FIELD(memory), 0, MOST, .preset = "0",
     .help = "weights of open models at most: the model that was not used for longest is closed; 0: no limit"},
    {"queue", "N", TSR_OPTION_INTEGER, FIELD(queue), 1, 10000000, .preset = "10000",
     .help = "lines of text in hand, beyond which requests are answered with 503"},
    {"timeout", "SECONDS", TSR_OPTION_NUMBER, FIELD(timeout), 0.01, 1e6, .preset = "60",
     .help = "time for the translation of a request; a later one is answered with 504"},
    {"char-limit", "N", TSR_OPTION_INTEGER, FIELD(char_limit), 0, MOST, .preset = "0",
     .help = "characters in a request at most; 0: no limit"},
    {"batch-limit", "N", TSR_OPTION_INTEGER, FIELD(batch_limit), 0, MOST, .preset = "0",
     .help = "texts in a request at most; 0: no limit"},
    {"alternatives-limit", "N", TSR_OPTION_INTEGER, FIELD(alternatives_limit), 0, 63, .preset = "15",
     .help = "alternatives that a request may ask for"},
    {"body-limit", "KIB", TSR_OPTION_INTEGER, FIELD(body_limit), 1, MOST_KIB, .preset = "2048",
     .help = "size of a request's body at most"},
    {"file-limit", "MIB", TSR_OPTION_INTEGER, FIELD(file_limit), 1, 1024, .preset = "20",
     .help = "size of a document at most"},
    {"requests-per-minute", "N", TSR_OPTION_INTEGER, FIELD(requests_per_minute), 0, MOST, .preset = "0",
     .help = "requests of an API key, or of an address without a key; 0: no limit"},
    {"characters-per-minute", "N", TSR_OPTION_INTEGER, FIELD(characters_per_minute), 0, MOST, .preset = "0",
     .help = "characters of their texts"},
    {"keys", "FILE", TSR_OPTION_FILE, FIELD(keys),
     .help = "hashes of API keys, a line each: the hash, and its requests and characters a minute if they are others"},
    {"key-required", NULL, TSR_OPTION_SWITCH, FIELD(key_required), .help = "refuse requests without a key",
     .preset = "false"},
    {"suggestions", "FILE", TSR_OPTION_FILE, FIELD(suggestions),
     .help = "translations that clients suggest are added to this file, one JSON object a line",
     .otherwise = "they are refused"},
    {"sound-limit", "MIB", TSR_OPTION_INTEGER, FIELD(sound_limit), 1, 100000, .preset = "100",
     .help = "size of a sound's upload at most, which lies in the folder of temporary files meanwhile"},
    {"sound-seconds", "S", TSR_OPTION_NUMBER, FIELD(sound_seconds), 0, 1e9, .preset = "14400",
     .help = "length of a sound at most; 0: no limit"},
    {"sound-timeout", "S", TSR_OPTION_NUMBER, FIELD(sound_timeout), 0.01, 1e6, .preset = "600",
     .help = "time for a sound, from the beginning of its request; a later one is answered with 504"},
    {"sound-queue", "N", TSR_OPTION_INTEGER, FIELD(sound_queue), 1, 10000, .preset = "32",
     .help = "sounds in hand, their uploads included, beyond which requests are answered with 503"},
    {"sound-batch", "N", TSR_OPTION_INTEGER, FIELD(sound_batch), 1, 1024, .preset = "4",
     .help = "windows of as many sounds computed at once"},
    {"files", NULL, TSR_OPTION_SWITCH, FIELD(files), .preset = "true", .help = "translate documents"},
    {"metrics", NULL, TSR_OPTION_SWITCH, FIELD(metrics), .preset = "true", .help = "answer GET /metrics"},
    {"document-threads", "N", TSR_OPTION_INTEGER, FIELD(document_threads), 1, 64, .preset = "2",
     .help = "documents that are translated at once"},
    {"connections", "N", TSR_OPTION_INTEGER, FIELD(connections), 1, 1000000, .preset = "20000",
     .help = "connections at most"},
    {"connections-per-address", "N", TSR_OPTION_INTEGER, FIELD(connections_per_address), 0, 1000000, .preset = "0",
     .help = "connections of one address at most; 0: any number"},
    {"header-limit", "KIB", TSR_OPTION_INTEGER, FIELD(header_limit), 1, 1024, .preset = "16",
     .help = "size of a request's line and headers at most"},
    {"request-seconds", "S", TSR_OPTION_NUMBER, FIELD(request_seconds), 0.1, 1e6, .preset = "30",
     .help = "time for a request to arrive; then its connection is closed"},
    {"idle-seconds", "S", TSR_OPTION_NUMBER, FIELD(idle_seconds), 0.1, 1e6, .preset = "75",
     .help = "time that a connection without a request stays open"},
    {"proxies", "N", TSR_OPTION_INTEGER, FIELD(proxies), 0, 16, .preset = "0",
     .help = "number of proxies before this server; each adds its client's address to X-Forwarded-For"},
    {"check", NULL, TSR_OPTION_FLAG, FIELD(check), .low = 1,
     .help = "print what would be served, and end; exit code 3: nothing would be"},
    {"hash-key", NULL, TSR_OPTION_FLAG, FIELD(hash_key), .low = 1,
     .help = "read an API key from standard input, print its line for --keys, and end"},
    {"make-key", NULL, TSR_OPTION_FLAG, FIELD(make_key), .low = 1,
     .help = "make an API key, print it and its line for --keys, and end"},
    {.table = &search_options, .offset = offsetof(serve_settings, search)},
};

const tsr_option_table serve_options = {
    .rows = rows,
    .has_given = 1,
    .given = offsetof(serve_settings, is_given),
};

typedef struct config_text {
  struct config_text *next;
  char bytes[];
} config_text;

/* ---- the file ---------------------------------------------------------------------------------------------------- */

typedef struct reader {
  const char *path;
  serve_config *config;
  yaml_parser_t parser;
} reader;

enum { WHERE_ROOM = 512 };

static int fail_at(const reader *r, const yaml_event_t *event, const char *expected)
{
  tsr_cli_error("%s:%d: expected %s", r->path, (int)event->start_mark.line + 1, expected);
  return TSR_EXIT_INPUT;
}

static int next(reader *r, yaml_event_t *event)
{
  if (yaml_parser_parse(&r->parser, event)) {
    return TSR_EXIT_OK;
  }
  tsr_cli_error("%s:%d: %s", r->path, (int)r->parser.problem_mark.line + 1,
                r->parser.problem ? r->parser.problem : "no YAML");
  return TSR_EXIT_INPUT;
}

/* A copy that lives as long as the configuration, which options borrow. */
static char *keep(reader *r, const char *first, const char *middle, const char *last)
{
  size_t size = strlen(first) + strlen(middle) + strlen(last) + 1;
  config_text *text = malloc(sizeof *text + size);
  if (!text) {
    return NULL;
  }
  snprintf(text->bytes, size, "%s%s%s", first, middle, last);
  text->next = r->config->texts;
  r->config->texts = text;
  return text->bytes;
}

static const tsr_option_entry *find_option(const tsr_option_list *list, const char *name)
{
  for (int32_t i = 0; i < list->n; i++) {
    if (strcmp(list->entries[i].row.name, name) == 0) {
      return &list->entries[i];
    }
  }
  return NULL;
}

static int is_given(const serve_settings *settings, const tsr_option_entry *entry)
{
  return ((const char *)settings)[entry->offset + entry->table->given + (size_t)entry->index] != 0;
}

static int store(reader *r, const tsr_option_entry *entry, const yaml_event_t *event, char *value)
{
  char what[WHERE_ROOM];
  if (!value) {
    return tsr_cli_no_memory();
  }
  if (entry->row.kind == TSR_OPTION_FLAG) {
    return fail_at(r, event, "a setting; this option is for command lines alone");
  }
  if (is_given(&r->config->settings, entry)) {
    return TSR_EXIT_OK;
  }
  snprintf(what, sizeof what, "%s:%d: %s", r->path, (int)event->start_mark.line + 1, entry->row.name);
  const tsr_option_given given = {
      .what = what, .row = &entry->row, .index = entry->index, .place = (char *)&r->config->settings + entry->offset};
  tsr_option_take take = entry->row.take ? entry->row.take : entry->table->take;
  int code = take ? take(&given, value) : tsr_option_store(&given, value);
  /* What the search is asked for counts as given, as on the command line. */
  if (code == TSR_EXIT_OK && entry->table != &serve_options && entry->table->has_given) {
    ((char *)&r->config->settings)[entry->offset + entry->table->given + (size_t)entry->index] = 1;
  }
  return code;
}

static const char *text_of(const yaml_event_t *event)
{
  return (const char *)event->data.scalar.value;
}

/* The values of a sequence, or the pairs of a mapping as "name=value", each added to the option. */
static int read_list(reader *r, const tsr_option_entry *entry, yaml_event_type_t end)
{
  for (int code = TSR_EXIT_OK;;) {
    yaml_event_t event;
    if ((code = next(r, &event)) != TSR_EXIT_OK) {
      return code;
    }
    int is_end = event.type == end;
    if (!is_end && event.type != YAML_SCALAR_EVENT) {
      code = fail_at(r, &event, "a text");
    } else if (!is_end && end == YAML_SEQUENCE_END_EVENT) {
      code = store(r, entry, &event, keep(r, text_of(&event), "", ""));
    } else if (!is_end) {
      yaml_event_t value;
      code = next(r, &value);
      if (code == TSR_EXIT_OK) {
        code = value.type == YAML_SCALAR_EVENT ? store(r, entry, &event, keep(r, text_of(&event), "=", text_of(&value)))
                                               : fail_at(r, &value, "a text");
        yaml_event_delete(&value);
      }
    }
    yaml_event_delete(&event);
    if (is_end || code != TSR_EXIT_OK) {
      return code;
    }
  }
}

static int read_value(reader *r, const tsr_option_list *list, const yaml_event_t *name)
{
  yaml_event_t value;
  const tsr_option_entry *entry = find_option(list, text_of(name));
  if (!entry) {
    tsr_cli_error("%s:%d: there is no setting '%s'", r->path, (int)name->start_mark.line + 1, text_of(name));
    return TSR_EXIT_INPUT;
  }
  int code = next(r, &value);
  if (code != TSR_EXIT_OK) {
    return code;
  }
  if (value.type == YAML_SCALAR_EVENT) {
    code = store(r, entry, &value, keep(r, text_of(&value), "", ""));
  } else if (value.type == YAML_SEQUENCE_START_EVENT && entry->row.is_list) {
    code = read_list(r, entry, YAML_SEQUENCE_END_EVENT);
  } else if (value.type == YAML_MAPPING_START_EVENT && entry->row.is_list) {
    code = read_list(r, entry, YAML_MAPPING_END_EVENT);
  } else {
    code = fail_at(r, &value, "one value");
  }
  yaml_event_delete(&value);
  return code;
}

/* Every event up to the end of the file; the settings are the one mapping. */
static int read_events(reader *r, const tsr_option_list *list)
{
  int depth = 0;
  for (int is_end = 0; !is_end;) {
    yaml_event_t event;
    int code = next(r, &event);
    if (code != TSR_EXIT_OK) {
      return code;
    }
    switch (event.type) {
    case YAML_STREAM_END_EVENT:
      is_end = 1;
      break;
    case YAML_MAPPING_START_EVENT:
      code = depth++ == 0 ? TSR_EXIT_OK : fail_at(r, &event, "names and values");
      break;
    case YAML_SCALAR_EVENT:
      code = depth == 1 ? read_value(r, list, &event) : fail_at(r, &event, "names and values");
      break;
    case YAML_MAPPING_END_EVENT:
      depth = 2; /* nothing may follow */
      break;
    case YAML_SEQUENCE_START_EVENT:
    case YAML_ALIAS_EVENT:
      code = fail_at(r, &event, "names and values");
      break;
    default:
      break;
    }
    yaml_event_delete(&event);
    if (code != TSR_EXIT_OK) {
      return code;
    }
  }
  return TSR_EXIT_OK;
}

static int read_file(serve_config *config)
{
  reader r = {.path = config->settings.config, .config = config};
  tsr_option_list list = {0};
  int code = tsr_option_list_make(&serve_options, &list);
  FILE *file = code == TSR_EXIT_OK ? fopen(r.path, "rb") : NULL;
  if (code == TSR_EXIT_OK && !file) {
    tsr_cli_error("%s: cannot be opened: %s", r.path, strerror(errno));
    code = TSR_EXIT_INPUT;
  }
  if (code == TSR_EXIT_OK && !yaml_parser_initialize(&r.parser)) {
    code = tsr_cli_no_memory();
  } else if (code == TSR_EXIT_OK) {
    yaml_parser_set_input_file(&r.parser, file);
    code = read_events(&r, &list);
    yaml_parser_delete(&r.parser);
  }
  if (file) {
    fclose(file);
  }
  tsr_option_list_finish(&list);
  return code;
}

/* "demo-model=en-fr", "mul=de+fr-en" */
static int check_directions(const tsr_names *directions)
{
  for (int32_t i = 0; i < directions->n; i++) {
    const char *value = directions->values[i], *equals = strchr(value, '=');
    const char *dash = equals ? strchr(equals, '-') : NULL;
    if (!dash || equals == value || dash == equals + 1 || dash[1] == '\0') {
      tsr_cli_error("--direction: '%s' is no FOLDER=SOURCE-TARGET, such as demo-model=en-fr", value);
      return TSR_EXIT_USAGE;
    }
  }
  return TSR_EXIT_OK;
}

int serve_config_read(const serve_settings *given, serve_config **config)
{
  *config = calloc(1, sizeof **config);
  if (!*config) {
    return tsr_cli_no_memory();
  }
  (*config)->settings = *given;
  int code = given->config ? read_file(*config) : TSR_EXIT_OK;
  code = code == TSR_EXIT_OK ? check_directions(&(*config)->settings.directions) : code;
  if (code != TSR_EXIT_OK) {
    serve_config_finish(*config);
    *config = NULL;
  }
  return code;
}

void serve_config_finish(serve_config *config)
{
  for (config_text *text = config ? config->texts : NULL; text;) {
    config_text *after = text->next;
    free(text);
    text = after;
  }
  free(config);
}

int serve_settings_open_alike(const serve_settings *a, const serve_settings *b)
{
  /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): zeroed memory; a needless difference opens models anew. */
  int is_search_alike = a && memcmp(&a->search.given, &b->search.given, sizeof a->search.given) == 0;
  int same = is_search_alike && a->precision == b->precision && a->batch == b->batch && a->workers == b->workers &&
             a->max_source == b->max_source && a->sound_batch == b->sound_batch && a->devices.n == b->devices.n &&
             a->split == b->split && memcmp(a->search.is_given, b->search.is_given, sizeof a->search.is_given) == 0;
  for (int32_t i = 0; same && i < a->devices.n; i++) {
    same = strcmp(a->devices.values[i], b->devices.values[i]) == 0;
  }
  return same;
}
