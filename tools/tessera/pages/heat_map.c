/* SPDX-License-Identifier: Apache-2.0
 *
 * Drawn with cairo, the names with pango, which finds a font for each script.
 */
#include "tools/tessera/pages/heat_map.h"

#include <math.h>
#include <pango/pangocairo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/files.h"
#include "tools/tessera/common/message.h"

/* What fontconfig keeps for another picture is no leak to LeakSanitizer. Its FcFini, which frees that, ends the program
 * by an assertion if fonts or its caches changed since the first picture. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
  return "leak:libfontconfig\n";
}

/* In pixels. */
enum {
  MARGIN = 12,
  TITLE = 26,
  LEGEND = 44,
  LEGEND_BAR = 120,
  LARGEST_NAME = 180,
  LARGEST_SIDE = 20000, /* of the cells; cairo's images have 32767 at most */
  FONT = 13,
  SMALLEST_FONT = 8
};

typedef struct drawing {
  const heat_map *map;
  cairo_surface_t *surface;
  cairo_t *cairo;
  PangoLayout *layout;
  int cell;      /* side */
  int left, top; /* of the cells */
  int width, height;
  double font;
  int every; /* only each so-manieth name has room */
} drawing;

static void font_size(drawing *d, double pixels)
{
  PangoFontDescription *font = pango_font_description_from_string("Sans");
  pango_font_description_set_absolute_size(font, pixels * PANGO_SCALE);
  pango_layout_set_font_description(d->layout, font);
  pango_font_description_free(font);
}

/* Width and height of a text. */
static void measure(drawing *d, const char *text, int *width, int *height)
{
  pango_layout_set_text(d->layout, text, -1);
  pango_layout_get_pixel_size(d->layout, width, height);
}

/* share 0 is white, 1 dark blue. */
static void set_color(cairo_t *cairo, double share)
{
  static const double stops[3][3] = {{255, 255, 255}, {107, 174, 214}, {8, 48, 107}};
  double at = 2.0 * fmin(1.0, fmax(0.0, share)), c[3];
  int i = at < 1.0 ? 0 : 1;
  for (int k = 0; k < 3; k++) {
    c[k] = (stops[i][k] + (stops[i + 1][k] - stops[i][k]) * (at - i)) / 255.0;
  }
  cairo_set_source_rgb(cairo, c[0], c[1], c[2]);
}

/* Side of a cell, font of the names, and how much room they take. */
static void plan(drawing *d)
{
  const heat_map *map = d->map;
  int n = map->n_rows > map->n_columns ? map->n_rows : map->n_columns;
  d->cell = n <= 24 ? 28 : n <= 60 ? 18 : n <= 120 ? 13 : 10;
  if ((int64_t)d->cell * n > LARGEST_SIDE) {
    d->cell = LARGEST_SIDE / n > 0 ? LARGEST_SIDE / n : 1;
  }
  d->font = fmax(SMALLEST_FONT, fmin(FONT, d->cell - 2));
  d->every = (int)ceil((d->font + 2.0) / d->cell);
  font_size(d, d->font);
  int widest[2] = {0, 0}, width = 0, height = 0;
  for (int side = 0; side < 2; side++) {
    for (int32_t i = 0; i < (side ? map->n_columns : map->n_rows); i++) {
      measure(d, side ? map->columns[i] : map->rows[i], &width, &height);
      widest[side] = width > widest[side] ? width : widest[side];
    }
    widest[side] = widest[side] < LARGEST_NAME ? widest[side] : LARGEST_NAME;
  }
  d->left = MARGIN + widest[0] + 6;
  d->top = MARGIN + TITLE + widest[1] + 6;
  font_size(d, FONT);
  measure(d, map->title, &width, &height);
  d->width = d->left + d->cell * map->n_columns;
  d->width = (d->width > MARGIN + width ? d->width : MARGIN + width) + MARGIN;
  d->width = d->width > LEGEND_BAR + 160 ? d->width : LEGEND_BAR + 160;
  d->height = d->top + d->cell * map->n_rows + LEGEND;
}

static void draw_text(drawing *d, const char *text, double x, double y)
{
  cairo_set_source_rgb(d->cairo, 0.13, 0.13, 0.13);
  pango_layout_set_text(d->layout, text, -1);
  cairo_move_to(d->cairo, x, y);
  pango_cairo_show_layout(d->cairo, d->layout);
}

/* Names end at the cells; those of columns are turned, to be read upwards. */
static void draw_names(drawing *d)
{
  const heat_map *map = d->map;
  font_size(d, d->font);
  pango_layout_set_ellipsize(d->layout, PANGO_ELLIPSIZE_END);
  for (int side = 0; side < 2; side++) {
    for (int32_t i = 0; i < (side ? map->n_columns : map->n_rows); i += d->every) {
      int width = 0, height = 0;
      const char *name = side ? map->columns[i] : map->rows[i];
      pango_layout_set_width(d->layout, -1);
      measure(d, name, &width, &height);
      if (width > LARGEST_NAME) {
        pango_layout_set_width(d->layout, LARGEST_NAME * PANGO_SCALE);
        width = LARGEST_NAME;
      }
      double center = (i + 0.5) * d->cell;
      cairo_save(d->cairo);
      if (side) {
        cairo_translate(d->cairo, d->left + center - height / 2.0, d->top - 6.0);
        cairo_rotate(d->cairo, -acos(0.0));
        draw_text(d, name, 0.0, 0.0);
      } else {
        draw_text(d, name, d->left - 6.0 - width, d->top + center - height / 2.0);
      }
      cairo_restore(d->cairo);
    }
  }
  pango_layout_set_width(d->layout, -1);
}

static void draw_legend(drawing *d)
{
  char text[32];
  double x = MARGIN + 16.0, y = d->height - LEGEND + 16.0;
  for (int i = 0; i < LEGEND_BAR; i++) {
    set_color(d->cairo, i / (LEGEND_BAR - 1.0));
    cairo_rectangle(d->cairo, x + i, y, 1.0, 14.0);
    cairo_fill(d->cairo);
  }
  cairo_set_source_rgb(d->cairo, 0.8, 0.8, 0.8);
  cairo_rectangle(d->cairo, x - 0.5, y - 0.5, LEGEND_BAR + 1.0, 15.0);
  cairo_stroke(d->cairo);
  snprintf(text, sizeof text, "%.4g", d->map->most);
  draw_text(d, "0", x - 12.0, y - 2.0);
  draw_text(d, text, x + LEGEND_BAR + 6.0, y - 2.0);
}

static void draw(drawing *d)
{
  const heat_map *map = d->map;
  cairo_set_source_rgb(d->cairo, 1.0, 1.0, 1.0);
  cairo_paint(d->cairo);
  cairo_set_antialias(d->cairo, CAIRO_ANTIALIAS_NONE);
  for (int32_t row = 0; row < map->n_rows; row++) {
    for (int32_t column = 0; column < map->n_columns; column++) {
      set_color(d->cairo, map->values[(int64_t)row * map->n_columns + column] / map->most);
      cairo_rectangle(d->cairo, d->left + column * d->cell, d->top + row * d->cell, d->cell, d->cell);
      cairo_fill(d->cairo);
    }
  }
  cairo_set_antialias(d->cairo, CAIRO_ANTIALIAS_DEFAULT);
  cairo_set_line_width(d->cairo, 1.0);
  cairo_set_source_rgb(d->cairo, 0.8, 0.8, 0.8);
  cairo_rectangle(d->cairo, d->left - 0.5, d->top - 0.5, map->n_columns * d->cell + 1.0, map->n_rows * d->cell + 1.0);
  cairo_stroke(d->cairo);
  draw_names(d);
  font_size(d, FONT);
  draw_text(d, map->title, MARGIN, MARGIN);
  draw_legend(d);
}

/* The file's bytes so far. */
typedef struct bytes {
  unsigned char *data;
  size_t size, room;
} bytes;

static cairo_status_t append(void *closure, const unsigned char *data, unsigned length)
{
  bytes *b = closure;
  if (b->room - b->size < length) {
    size_t room = 2 * (b->size + length);
    unsigned char *more = realloc(b->data, room);
    if (!more) {
      return CAIRO_STATUS_NO_MEMORY;
    }
    b->data = more;
    b->room = room;
  }
  memcpy(b->data + b->size, data, length);
  b->size += length;
  return CAIRO_STATUS_SUCCESS;
}

/* Surface, context and layout of a size. */
static cairo_status_t start(drawing *d, int width, int height)
{
  d->surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, width, height);
  d->cairo = cairo_create(d->surface);
  d->layout = pango_cairo_create_layout(d->cairo);
  pango_layout_set_single_paragraph_mode(d->layout, TRUE);
  return cairo_status(d->cairo);
}

static void finish(drawing *d)
{
  g_object_unref(d->layout);
  cairo_destroy(d->cairo);
  cairo_surface_destroy(d->surface);
}

int heat_map_draw(const char *path, const heat_map *map)
{
  drawing d = {.map = map};
  bytes png = {0};
  cairo_status_t status = start(&d, 1, 1); /* to measure with */
  plan(&d);
  finish(&d);
  if (status == CAIRO_STATUS_SUCCESS) {
    status = start(&d, d.width, d.height);
    if (status == CAIRO_STATUS_SUCCESS) {
      draw(&d);
      status = cairo_surface_write_to_png_stream(d.surface, append, &png);
    }
    finish(&d);
  }
  int code = TSR_EXIT_OK;
  if (status == CAIRO_STATUS_NO_MEMORY) {
    code = tsr_cli_no_memory();
  } else if (status != CAIRO_STATUS_SUCCESS) {
    tsr_cli_error("%s: drawing %d by %d pixels: %s", path, d.width, d.height, cairo_status_to_string(status));
    code = TSR_EXIT_INTERNAL;
  } else {
    code = tsr_cli_fail(tsr_file_replace(path, png.data, png.size));
  }
  pango_cairo_font_map_set_default(NULL);
  free(png.data);
  return code;
}
