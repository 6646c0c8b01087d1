/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/plan/card.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/tessera/common/message.h"
#include "tools/tessera/common/path.h"

/* ---- the keys ---------------------------------------------------------------------------------------------------- */

typedef struct figure_key {
  const char *name;
  size_t offset; /* of a double in plan_figures */
  double unit;   /* what 1 stands for */
  int32_t needed;
  double high; /* in the key's unit */
} figure_key;

#define FIGURE(name, member, unit, needed, high)                                                                       \
  {                                                                                                                    \
    name, offsetof(plan_figures, member), unit, needed, high                                                           \
  }
#define RATE(name, type, needed) FIGURE(name "_gop_per_second", rate[TSR_RATE_##type], 1e9, needed, 1e9)
#define ONE_ROW(name, type)      FIGURE("one_row_" name "_gop_per_second", one_row[TSR_RATE_##type], 1e9, 0, 1e9)

static const figure_key figure_keys[] = {
    FIGURE("memory_gb_per_second", memory_bandwidth, 1e9, 1, 1e9),
    FIGURE("l2_gb_per_second", l2_bandwidth, 1e9, 1, 1e9),
    FIGURE("l2_mib", l2_bytes, 1048576.0, 1, 1e9),
    RATE("f32", F32, 1),
    RATE("f16", F16, 0),
    RATE("cooperative_f16", COOPERATIVE_F16, 0),
    RATE("i8", I8, 0),
    RATE("cooperative_i8", COOPERATIVE_I8, 0),
    RATE("other", OTHER, 0),
    ONE_ROW("f32", F32),
    ONE_ROW("f16", F16),
    ONE_ROW("i8", I8),
    FIGURE("stage_microseconds", stage_seconds, 1e-6, 1, 1e9),
    FIGURE("dispatch_microseconds", dispatch_seconds, 1e-6, 0, 1e9),
    FIGURE("submit_microseconds", submit_seconds, 1e-6, 1, 1e9),
};

enum { N_FIGURES = sizeof figure_keys / sizeof figure_keys[0] };

/* Figures that may be 0: times. */
static int is_time(const figure_key *key)
{
  return key->unit == 1e-6;
}

enum { WORD32, WORD64, SIGNED32, TRUTH };

typedef struct capability_key {
  const char *name;
  int32_t kind;
  int32_t n; /* values; of an array more than 1 */
  size_t offset;
  double low, high;
} capability_key;

#define CAPABILITY(name, kind, n, low, high)                                                                           \
  {                                                                                                                    \
#name, kind, n, offsetof(tsr_described_device, name), low, high                                                    \
  }

static const capability_key capability_keys[] = {
    CAPABILITY(max_binding_size, WORD64, 1, 4, 9007199254740992.0),
    CAPABILITY(buffer_alignment, WORD32, 1, 16, 1 << 20),
    CAPABILITY(max_invocations, WORD32, 1, 1, 1 << 20),
    CAPABILITY(max_groups, WORD32, 3, 1, 4294967295.0),
    CAPABILITY(max_group_size, WORD32, 3, 1, 1 << 20),
    CAPABILITY(shared_memory, WORD32, 1, 1024, 1 << 30),
    CAPABILITY(subgroup_size, WORD32, 1, 1, 128),
    CAPABILITY(subgroup_sizes, WORD32, 2, 0, 128),
    CAPABILITY(max_subgroups, WORD32, 1, 0, 4294967295.0),
    CAPABILITY(subgroup_arithmetic, TRUTH, 1, 0, 1),
    CAPABILITY(subgroup_shuffle, TRUTH, 1, 0, 1),
    CAPABILITY(buffer_addresses, TRUTH, 1, 0, 1),
    CAPABILITY(unified_memory, TRUTH, 1, 0, 1),
    CAPABILITY(f16_storage, TRUTH, 1, 0, 1),
    CAPABILITY(i8_dot, SIGNED32, 1, 0, 2),
};

enum { N_CAPABILITIES = sizeof capability_keys / sizeof capability_keys[0] };

static const struct {
  const char *name;
  int32_t type;
} types[] = {{"discrete_gpu", TSR_DEVICE_DISCRETE_GPU},
             {"integrated_gpu", TSR_DEVICE_INTEGRATED_GPU},
             {"cpu", TSR_DEVICE_CPU},
             {"software_gpu", TSR_DEVICE_SOFTWARE_GPU}};

enum { N_TYPES = sizeof types / sizeof types[0] };

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* A file in hand. */
typedef struct reading {
  const char *path;
  json_t *root;
  plan_card *card;
} reading;

static int wrong(const reading *r, const char *key, const char *expected)
{
  tsr_cli_error("%s: the key \"%s\" should be %s", r->path, key, expected);
  return TSR_EXIT_INPUT;
}

static int lacks(const reading *r, const char *key)
{
  tsr_cli_error("%s: the key \"%s\" is missing", r->path, key);
  return TSR_EXIT_INPUT;
}

/* 1 if a number of low .. high. */
static int read_number(const json_t *value, double low, double high, double *number)
{
  *number = json_is_number(value) ? json_number_value(value) : NAN;
  return *number >= low && *number <= high;
}

/* The number of a figure: itself, or an object's. NULL: the object is not what it should be. */
static const json_t *value_of(const json_t *figure)
{
  if (!json_is_object(figure)) {
    return figure;
  }
  const char *key;
  json_t *part;
  json_object_foreach((json_t *)(uintptr_t)figure, key, part)
  {
    const int fits = strcmp(key, "value") == 0 || (strcmp(key, "source") == 0 && json_is_string(part)) ||
                     (strcmp(key, "estimate") == 0 && json_is_boolean(part));
    if (!fits) {
      return NULL;
    }
  }
  return json_object_get(figure, "value");
}

static int read_figure(const reading *r, const json_t *figures, const figure_key *key)
{
  const json_t *figure = json_object_get(figures, key->name);
  double *place = (double *)(void *)((char *)&r->card->figures + key->offset);
  double number;
  if (!figure) {
    return key->needed ? lacks(r, key->name) : TSR_EXIT_OK;
  }
  if (!read_number(value_of(figure), is_time(key) ? 0 : 1e-9, key->high, &number)) {
    return wrong(r, key->name,
                 is_time(key) ? "a number from 0 to 1e9, or an object of value, source and estimate"
                              : "a number above 0 and up to 1e9, or an object of value, source and estimate");
  }
  *place = number * key->unit;
  return TSR_EXIT_OK;
}

static int is_known(const char *key)
{
  for (int32_t i = 0; i < N_FIGURES; i++) {
    if (strcmp(figure_keys[i].name, key) == 0) {
      return 1;
    }
  }
  return strcmp(key, "processors") == 0;
}

/* What is not told follows from f32. */
static void fill_rates(plan_figures *f)
{
  for (int32_t i = 0; i < TSR_RATE_COUNT; i++) {
    f->rate[i] = f->rate[i] > 0 ? f->rate[i] : f->rate[TSR_RATE_F32];
  }
}

static int read_figures(const reading *r)
{
  json_t *figures = json_object_get(r->root, "figures");
  double processors;
  const char *key;
  json_t *value;
  if (!json_is_object(figures)) {
    return figures ? wrong(r, "figures", "an object") : lacks(r, "figures");
  }
  json_object_foreach(figures, key, value)
  {
    if (!is_known(key)) {
      return wrong(r, key, "left out of \"figures\", which has no such key");
    }
  }
  int code = TSR_EXIT_OK;
  for (int32_t i = 0; i < N_FIGURES && code == TSR_EXIT_OK; i++) {
    code = read_figure(r, figures, &figure_keys[i]);
  }
  if (code != TSR_EXIT_OK) {
    return code;
  }
  value = json_object_get(figures, "processors");
  if (!value) {
    return lacks(r, "processors");
  }
  if (!read_number(value_of(value), 1, 1e6, &processors) || processors != floor(processors)) {
    return wrong(r, "processors", "a whole number from 1 to 1000000, or an object of value, source and estimate");
  }
  r->card->figures.processors = (int32_t)processors;
  fill_rates(&r->card->figures);
  return TSR_EXIT_OK;
}

static int read_capability(const reading *r, const capability_key *key, const json_t *value)
{
  char *place = (char *)&r->card->described + key->offset;
  char expected[96];
  if (key->kind == TRUTH) {
    const int32_t truth = json_is_true(value);
    memcpy(place, &truth, sizeof truth);
    return json_is_boolean(value) ? TSR_EXIT_OK : wrong(r, key->name, "true or false");
  }
  int good = key->n == 1 || (json_is_array(value) && json_array_size(value) == (size_t)key->n);
  for (int32_t i = 0; i < key->n && good; i++) {
    double number;
    good = read_number(key->n == 1 ? value : json_array_get(value, (size_t)i), key->low, key->high, &number) &&
           number == floor(number);
    if (good && key->kind == WORD64) {
      const uint64_t word = (uint64_t)number;
      memcpy(place, &word, sizeof word);
    } else if (good) {
      const uint32_t word = (uint32_t)number;
      memcpy(place + (size_t)i * sizeof word, &word, sizeof word);
    }
  }
  if (good) {
    return TSR_EXIT_OK;
  }
  snprintf(expected, sizeof expected, "%s from %.0f to %.0f",
           key->n == 1   ? "a whole number"
           : key->n == 2 ? "an array of two whole numbers"
                         : "an array of three whole numbers",
           key->low, key->high);
  return wrong(r, key->name, expected);
}

/* The types of cooperative matrices */
static const tsr_dtype matrix_types[] = {TSR_F16, TSR_BF16, TSR_I8};

/* 1, *dtype set, if there are cooperative matrices of a type of that name. */
static int find_matrix_type(const char *name, tsr_dtype *dtype)
{
  for (size_t i = 0; name && i < sizeof matrix_types / sizeof matrix_types[0]; i++) {
    if (strcmp(name, tsr_dtype_name(matrix_types[i])) == 0) {
      *dtype = matrix_types[i];
      return 1;
    }
  }
  return 0;
}

static int wrong_shapes(const reading *r)
{
  return wrong(r, "cooperative_matrices",
               "an array of at most 16 objects of type (\"f16\", \"bf16\" or \"i8\"), m, n and k");
}

static int read_shape(const reading *r, const json_t *value, tsr_matrix_shape *shape)
{
  double m, n, k;
  tsr_dtype dtype;
  if (!find_matrix_type(json_string_value(json_object_get(value, "type")), &dtype) ||
      !read_number(json_object_get(value, "m"), 1, 1024, &m) ||
      !read_number(json_object_get(value, "n"), 1, 1024, &n) ||
      !read_number(json_object_get(value, "k"), 1, 1024, &k) || json_object_size(value) != 4) {
    return wrong_shapes(r);
  }
  *shape = (tsr_matrix_shape){dtype, (uint32_t)m, (uint32_t)n, (uint32_t)k};
  return TSR_EXIT_OK;
}

static int read_shapes(const reading *r, const json_t *list)
{
  tsr_described_device *described = &r->card->described;
  if (!json_is_array(list) || json_array_size(list) > TSR_MAX_MATRIX_SHAPES) {
    return wrong_shapes(r);
  }
  int code = TSR_EXIT_OK;
  for (size_t i = 0; i < json_array_size(list) && code == TSR_EXIT_OK; i++) {
    code = read_shape(r, json_array_get(list, i), &described->shapes[described->n_shapes++]);
  }
  return code;
}

static int read_capabilities(const reading *r)
{
  json_t *capabilities = json_object_get(r->root, "capabilities");
  const tsr_described_device *described = &r->card->described;
  const char *key;
  json_t *value;
  int code = TSR_EXIT_OK;
  if (!capabilities && strcmp(r->card->backend, "vulkan") != 0) {
    return TSR_EXIT_OK;
  }
  if (!json_is_object(capabilities)) {
    return capabilities ? wrong(r, "capabilities", "an object") : lacks(r, "capabilities");
  }
  json_object_foreach(capabilities, key, value)
  {
    int32_t i = 0;
    while (i < N_CAPABILITIES && strcmp(capability_keys[i].name, key) != 0) {
      i++;
    }
    const int is_source = strcmp(key, "source") == 0 && (json_is_string(value) || json_is_array(value));
    if (i < N_CAPABILITIES) {
      code = read_capability(r, &capability_keys[i], value);
    } else if (strcmp(key, "cooperative_matrices") == 0) {
      code = read_shapes(r, value);
    } else if (!is_source) {
      code = wrong(r, key, "left out of \"capabilities\", which has no such key");
    }
    if (code != TSR_EXIT_OK) {
      return code;
    }
  }
  for (int32_t i = 0; i < N_CAPABILITIES; i++) {
    if (!json_object_get(capabilities, capability_keys[i].name)) {
      return lacks(r, capability_keys[i].name);
    }
  }
  if ((described->buffer_alignment & (described->buffer_alignment - 1)) != 0) {
    return wrong(r, "buffer_alignment", "a power of two");
  }
  return TSR_EXIT_OK;
}

static int read_text(const reading *r, const char *key, char *text, size_t size)
{
  const json_t *value = json_object_get(r->root, key);
  if (!value) {
    return lacks(r, key);
  }
  if (!json_is_string(value) || json_string_length(value) == 0 || json_string_length(value) >= size ||
      strlen(json_string_value(value)) != json_string_length(value)) {
    char expected[64];
    snprintf(expected, sizeof expected, "a text of 1 to %zu bytes", size - 1);
    return wrong(r, key, expected);
  }
  snprintf(text, size, "%s", json_string_value(value));
  return TSR_EXIT_OK;
}

static int read_type(const reading *r)
{
  char text[32];
  int code = read_text(r, "type", text, sizeof text);
  for (int32_t i = 0; i < N_TYPES && code == TSR_EXIT_OK; i++) {
    if (strcmp(types[i].name, text) == 0) {
      r->card->described.type = types[i].type;
      r->card->figures.one_by_one = types[i].type == TSR_DEVICE_CPU || types[i].type == TSR_DEVICE_SOFTWARE_GPU;
      return TSR_EXIT_OK;
    }
  }
  return code != TSR_EXIT_OK ? code : wrong(r, "type", "discrete_gpu, integrated_gpu, software_gpu or cpu");
}

static int read_root(const reading *r)
{
  static const char *const keys[] = {"name", "backend", "type", "figures", "capabilities", "source"};
  enum { N_KEYS = sizeof keys / sizeof keys[0] };
  const char *key;
  json_t *value;
  if (!json_is_object(r->root)) {
    tsr_cli_error("%s: an object is expected", r->path);
    return TSR_EXIT_INPUT;
  }
  json_object_foreach(r->root, key, value)
  {
    int32_t i = 0;
    while (i < N_KEYS && strcmp(keys[i], key) != 0) {
      i++;
    }
    if (i == N_KEYS) {
      return wrong(r, key, "left out: a description has no such key");
    }
  }
  *r->card = (plan_card){.described = {.struct_size = sizeof r->card->described}};
  int code = read_text(r, "name", r->card->name, sizeof r->card->name);
  if (code == TSR_EXIT_OK) {
    snprintf(r->card->described.name, sizeof r->card->described.name, "%s", r->card->name);
    code = read_text(r, "backend", r->card->backend, sizeof r->card->backend);
  }
  if (code == TSR_EXIT_OK) {
    code = read_type(r);
  }
  if (code == TSR_EXIT_OK) {
    code = read_figures(r);
  }
  return code == TSR_EXIT_OK ? read_capabilities(r) : code;
}

static int is_there(const char *path, int length, size_t size)
{
  return length > 0 && (size_t)length < size && access(path, R_OK) == 0;
}

/* The path of the description of that name: beside the program in its build folder, or where they are installed; NULL:
 * there is none. */
static const char *find_installed(const char *name, char *path, size_t size)
{
  char self[2048];
  if (path_of_program(self, sizeof self)) {
    *strrchr(self, '/') = '\0';
    if (is_there(path, snprintf(path, size, "%s/plan/%s.json", self, name), size)) {
      return path;
    }
  }
  return is_there(path, snprintf(path, size, "%s/%s.json", TSR_DEVICES_INSTALLED, name), size) ? path : NULL;
}

int plan_card_read(const char *name, plan_card *card)
{
  char installed[4096];
  json_error_t error;
  reading r = {.path = name, .card = card};
  if (!strpbrk(name, "/.")) {
    const char *found = find_installed(name, installed, sizeof installed);
    if (!found && access(name, R_OK) != 0) {
      tsr_cli_error("%s: there is no such file, and no description of that name in %s", name, TSR_DEVICES_INSTALLED);
      return TSR_EXIT_INPUT;
    }
    r.path = found ? found : name;
  }
  r.root = json_load_file(r.path, JSON_REJECT_DUPLICATES, &error);
  if (!r.root) {
    if (error.line > 0) {
      tsr_cli_error("%s: line %d, column %d: %s", r.path, error.line, error.column, error.text);
    } else {
      tsr_cli_error("%s: %s", r.path, error.text);
    }
    return TSR_EXIT_INPUT;
  }
  const int code = read_root(&r);
  json_decref(r.root);
  return code;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static json_t *sourced(json_t *value, const char *source)
{
  return source ? json_pack("{s:o, s:s}", "value", value, "source", source) : value;
}

static json_t *figures_json(const plan_figures *f, const char *source)
{
  json_t *figures = json_object();
  for (int32_t i = 0; i < N_FIGURES; i++) {
    double number;
    memcpy(&number, (const char *)f + figure_keys[i].offset, sizeof number);
    if (number > 0 || figure_keys[i].needed) {
      char text[32];
      snprintf(text, sizeof text, "%.4g", number / figure_keys[i].unit);
      json_object_set_new(figures, figure_keys[i].name, sourced(json_real(strtod(text, NULL)), source));
    }
  }
  json_object_set_new(figures, "processors", sourced(json_integer(f->processors), source));
  return figures;
}

static json_t *capability_json(const tsr_described_device *described, const capability_key *key)
{
  const char *place = (const char *)described + key->offset;
  json_t *list = key->n > 1 ? json_array() : NULL;
  for (int32_t i = 0; i < key->n; i++) {
    uint64_t wide;
    uint32_t word;
    if (key->kind == WORD64) {
      memcpy(&wide, place, sizeof wide);
      return json_integer((json_int_t)wide);
    }
    memcpy(&word, place + (size_t)i * sizeof word, sizeof word);
    if (key->n == 1) {
      return key->kind == TRUTH ? json_boolean(word != 0) : json_integer((json_int_t)word);
    }
    json_array_append_new(list, json_integer((json_int_t)word));
  }
  return list;
}

json_t *plan_card_json(const plan_card *card, const char *source)
{
  const char *type = types[0].name;
  for (int32_t i = 0; i < N_TYPES; i++) {
    type = types[i].type == card->described.type ? types[i].name : type;
  }
  json_t *root = json_pack("{s:s, s:s, s:s, s:o}", "name", card->name, "backend", card->backend, "type", type,
                           "figures", figures_json(&card->figures, source));
  if (!root || strcmp(card->backend, "vulkan") != 0) {
    return root;
  }
  json_t *capabilities = json_object(), *shapes = json_array();
  for (int32_t i = 0; i < N_CAPABILITIES; i++) {
    json_object_set_new(capabilities, capability_keys[i].name, capability_json(&card->described, &capability_keys[i]));
  }
  for (int32_t i = 0; i < card->described.n_shapes; i++) {
    const tsr_matrix_shape *shape = &card->described.shapes[i];
    json_array_append_new(shapes, json_pack("{s:s, s:i, s:i, s:i}", "type", tsr_dtype_name(shape->dtype), "m",
                                            (int)shape->m, "n", (int)shape->n, "k", (int)shape->k));
  }
  json_object_set_new(capabilities, "cooperative_matrices", shapes);
  json_object_set_new(root, "capabilities", capabilities);
  return root;
}
