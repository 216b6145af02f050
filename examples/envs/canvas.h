/* canvas.h - a picture made of characters, which the environments draw.

   Columns count from the left and rows from the top. A character is about twice as high as it is wide, so an
   undistorted picture takes two columns for the length of one row. What lies outside is ignored. */

#ifndef CANVAS_H
#define CANVAS_H

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CANVAS_MAX_WIDTH = 64, CANVAS_MAX_HEIGHT = 16 };

typedef struct canvas {
    int width, height; /* in characters */
    char cell[CANVAS_MAX_HEIGHT][CANVAS_MAX_WIDTH];
} canvas;

/* An empty picture; limited to the largest size. */
static inline canvas canvas_blank(int width, int height) {
    canvas c;
    c.width = width < CANVAS_MAX_WIDTH ? width : CANVAS_MAX_WIDTH;
    c.height = height < CANVAS_MAX_HEIGHT ? height : CANVAS_MAX_HEIGHT;
    memset(c.cell, ' ', sizeof c.cell);
    return c;
}

static inline void canvas_put(canvas *c, double column, double row, char ch) {
    long x = lround(column), y = lround(row);
    if (x >= 0 && x < c->width && y >= 0 && y < c->height) c->cell[y][x] = ch;
}

static inline void canvas_text(canvas *c, double column, double row, const char *text) {
    for (; *text; text++, column++) canvas_put(c, column, row, *text);
}

static inline void canvas_line(canvas *c, double column0, double row0, double column1, double row1, char ch) {
    double across = column1 - column0, down = row1 - row0;
    int steps = 1 + (int)fmax(fabs(across), fabs(down));
    for (int i = 0; i <= steps; i++) {
        canvas_put(c, column0 + across * i / steps, row0 + down * i / steps, ch);
    }
}

/* `height` lines of `width` characters, each ending in '\n': every picture covers the one before it. */
static inline void canvas_print(const canvas *c, FILE *file) {
    for (int y = 0; y < c->height; y++) fprintf(file, "%.*s\n", c->width, c->cell[y]);
}

#endif
