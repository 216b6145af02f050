/* web.c - the engine of the page that `make web` builds: ppo.h and two tabs' programs, compiled to WebAssembly. The
   page's worker (worker.js) calls what is here. */

#define PPO_IMPLEMENTATION
#define PPO_STATIC
#define PPO_NO_REPORTS
#include "ppo.h"

#include <emscripten.h>

#include "control.h"
#include "words.h"

/* A frame's fields, in their order; a name NULL ends them. */
#define WEB_FIELD(name, count) {#name, count},
typedef struct web_field {
    const char *name;
    int floats;
} web_field;
static const web_field web_control_list[] = {CONTROL_FRAME(WEB_FIELD){NULL, 0}};
static const web_field web_words_list[] = {WORDS_FRAME(WEB_FIELD){NULL, 0}};

static char web_text[256]; /* settings, written by the page */

EMSCRIPTEN_KEEPALIVE char *web_settings(void) { return web_text; }
EMSCRIPTEN_KEEPALIVE const char *web_error(void) { return ppo_last_error(); }
EMSCRIPTEN_KEEPALIVE const char *web_kernels(void) { return ppo_kernels_name(); }

EMSCRIPTEN_KEEPALIVE int web_control_start(int task, unsigned seed) {
    return control_start(task, seed, web_text);
}
EMSCRIPTEN_KEEPALIVE int web_control_set(void) { return control_set(web_text); }
EMSCRIPTEN_KEEPALIVE int web_control_run(double milliseconds) { return control_run(milliseconds); }
EMSCRIPTEN_KEEPALIVE int web_control_gradient_step(void) { return control_gradient_step(); }
EMSCRIPTEN_KEEPALIVE int web_control_show(void) { return control_show(); }
EMSCRIPTEN_KEEPALIVE int web_control_fill(void) { return control_fill(); }
EMSCRIPTEN_KEEPALIVE const web_field *web_control_fields(void) { return web_control_list; }
EMSCRIPTEN_KEEPALIVE float *web_control_frame(void) { return (float *)&control.frame; }
EMSCRIPTEN_KEEPALIVE double web_control_steps(void) { return (double)control.steps; }

EMSCRIPTEN_KEEPALIVE int web_words_start(unsigned seed, int wish) {
    ppo_status status = words_start(seed);
    words.wish = wish;
    return status ? status : words_set(web_text);
}
EMSCRIPTEN_KEEPALIVE int web_words_advance(void) { return words_advance(); }
EMSCRIPTEN_KEEPALIVE const web_field *web_words_fields(void) { return web_words_list; }
EMSCRIPTEN_KEEPALIVE float *web_words_frame(void) { return (float *)&words.frame; }
EMSCRIPTEN_KEEPALIVE int web_words_set(int wish) {
    words.wish = wish;
    return words_set(web_text);
}
