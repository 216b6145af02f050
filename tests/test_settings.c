/* All settings: their names, defaults, bounds and words, what they need, and the presets. Whoever changes one changes
   golden/settings.h, too: build/plain/test_settings print >tests/golden/settings.h */
#include "../ppo.h"

#include "golden/settings.h"
#include "test.h"

enum { LINE = 1024 };

static const struct table {
    const char *name;
    const ppo_settings *(*settings)(void);
} tables[] = {{"ppo_config", ppo_config_settings},
              {"ppo_lm_config", ppo_lm_settings},
              {"ppo_sampling", ppo_sampling_settings},
              {"ppo_fit_config", ppo_fit_settings},
              {"ppo_rlhf_config", ppo_rlhf_settings}};

/* Calls see() with a line for each row of each table. */
static void each_row(void (*see)(const char *line, int number)) {
    static const char *const types[] = {"int", "int64", "uint64", "float", "choice", "widths", "kernels"};
    char line[LINE];
    int number = 0;
    for (int i = 0; i < COUNT(tables); i++) {
        const ppo_settings *s = tables[i].settings();
        const char *name = tables[i].name;
        for (int k = 0; k < s->count; k++) {
            const ppo_field *f = &s->field[k];
            assert_true(snprintf(line, LINE, "%s.%s: %s, %s, %.9g to %.9g%s%s%s", name, f->name,
                                 types[f->type], f->initial ? f->initial : "none", f->min, f->max,
                                 f->choices ? ", " : "", f->choices ? f->choices : "",
                                 f->kind & PPO_FIELD_NETWORK ? ", of the network" : "") < LINE);
            see(line, number++);
        }
        for (const ppo_need *n = s->need; n && n->name; n++) {
            assert_true(snprintf(line, LINE, "%s.%s needs %s: %s", name, n->name, n->other,
                                 n->words ? n->words : "not 0") < LINE);
            see(line, number++);
        }
        for (const ppo_preset *p = s->preset; p && p->name; p++) {
            const int same = p > s->preset && !strcmp(p->resets, p[-1].resets);
            assert_true(snprintf(line, LINE, "%s \"%s\": defaults%s%s, then %s", name, p->name,
                                 same ? " as above" : " of ", same ? "" : p->resets, p->values) < LINE);
            see(line, number++);
        }
    }
    see(NULL, number);
}

static void compare(const char *line, int number) {
    if (line && number < COUNT(g_settings) && !strcmp(line, g_settings[number])) return;
    if (!line && number == COUNT(g_settings)) return;
    print_error("is: %s\nwas: %s\n", line ? line : "(no more)",
                number < COUNT(g_settings) ? g_settings[number] : "(no more)");
    fail_msg("if that is meant: build/plain/test_settings print >tests/golden/settings.h");
}

static void settings_have_the_names_defaults_and_bounds_that_they_had(void **state) {
    (void)state;
    each_row(compare);
}

static void print(const char *line, int number) {
    if (!number)
        printf("/* Written by test_settings.c; do not edit. */\n#ifndef GOLDEN_SETTINGS_H\n#define "
               "GOLDEN_SETTINGS_H\n\n"
               "static const char *const g_settings[] = {\n");
    for (const char *c = line; c && *c; c++)
        printf("%s%s%c", c == line ? "    \"" : "", strchr("\"\\", *c) ? "\\" : "", *c);
    printf(line ? "\",\n" : "};\n#endif\n");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_have_the_names_defaults_and_bounds_that_they_had),
    };
    if (argc > 1 && !strcmp(argv[1], "print")) {
        each_row(print);
        return 0;
    }
    return cmocka_run_group_tests_name("settings", tests, NULL, NULL);
}
