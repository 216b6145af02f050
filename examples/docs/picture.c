/* picture.c - draws the picture of README.md: CartPole is learned from ten seeds, and what the policy of the first
   one does on the way.

       cc -O2 -I. -Iexamples examples/docs/picture.c -lm -o build/picture && build/picture examples/docs/cartpole.svg */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "envs/cartpole.h"

#include <stdlib.h>

enum { SEEDS = 10, STEPS = 100000, MOST = 64, EPISODE = 500, SHOWN = 3 };

typedef struct curve {
    int n;
    double step[MOST], mean_return[MOST];
} curve;

typedef struct episode {
    int steps; /* until the pole fell, or EPISODE */
    cartpole state[EPISODE + 1];
} episode;

static void must(ppo_status status) {
    if (status == PPO_OK) return;
    fprintf(stderr, "picture: %s\n", ppo_last_error());
    exit(1);
}

/* An episode with sampled actions, as the training has them. */
static void play(ppo_agent *agent, episode *e) {
    ppo_rng rng = ppo_rng_stream(1, PPO_STREAM_USER, 0);
    ppo_outcome outcome;
    ppo_action action;
    float obs[4];
    memset(&outcome, 0, sizeof outcome);
    cartpole_reset(&e->state[0], &rng, obs);
    for (e->steps = 0; e->steps < EPISODE && !outcome.terminated; ++e->steps) {
        cartpole *next = &e->state[e->steps + 1];
        *next = e->state[e->steps];
        must(ppo_act(agent, obs, &rng, &action));
        cartpole_step(next, &rng, &action, obs, &outcome);
    }
}

/* Trains, and plays the episode k where shown[k] steps are done. */
static void train(uint64_t seed, curve *c, const long *shown, episode *episodes) {
    ppo_env env = cartpole_env();
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    ppo_progress now;
    int k = 0;
    cfg.total_steps = STEPS;
    cfg.seed = seed;
    must(ppo_agent_create(&env, &cfg, &agent));
    must(ppo_trainer_create(&env, &cfg, agent, &trainer));
    if (episodes) play(agent, &episodes[k++]);
    for (c->n = 0; c->n < MOST && !ppo_trainer_done(trainer); ++c->n) {
        must(ppo_trainer_iterate(trainer, &now));
        c->step[c->n] = (double)now.steps;
        c->mean_return[c->n] = now.mean_return;
        if (episodes && k < SHOWN && now.steps >= shown[k]) play(agent, &episodes[k++]);
    }
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
}

/* ---- drawing ---- */

static const char head[] =
    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 880 330\" width=\"880\" height=\"330\" "
    "font-family=\"system-ui,sans-serif\" font-size=\"13\">\n<style>"
    ".page{fill:#fff;stroke:#d8dee4}.panel{fill:#f4f7fa}text{fill:#1f2328}.dim{fill:#59636e}.grid{stroke:#"
    "e3e8ed}"
    ".line{stroke:#0a5fc2;fill:none}.pole{stroke:#c8420b}.cart{fill:#0a5fc2}.rail{stroke:#8c959f}"
    "@media "
    "(prefers-color-scheme:dark){.page{fill:#0d1117;stroke:#30363d}.panel{fill:#161b22}text{fill:#e6edf3}"
    ".dim{fill:#9198a1}.grid{stroke:#262c34}.line{stroke:#6cb2ff}.pole{stroke:#ff9466}.cart{fill:#6cb2ff}"
    ".rail{stroke:#6e7681}}</style>\n"
    "<rect class=\"page\" x=\".5\" y=\".5\" width=\"879\" height=\"329\" rx=\"10\"/>\n";

enum { LEFT = 62, RIGHT = 560, TOP = 62, BOTTOM = 276 };

static double across(double step) { return LEFT + step / STEPS * (RIGHT - LEFT); }
static double up(double value) { return BOTTOM - value / EPISODE * (BOTTOM - TOP); }

static void draw_line(FILE *file, const curve *c, const char *style) {
    fprintf(file, "<path class=\"line\" %s d=\"", style);
    for (int i = 0; i < c->n; ++i)
        fprintf(file, "%c%.0f %.0f", i ? 'L' : 'M', across(c->step[i]), up(c->mean_return[i]));
    fprintf(file, "\"/>\n");
}

static void draw_curves(FILE *file, const curve *curves) {
    curve mean = curves[0];
    fprintf(file,
            "<text x=\"24\" y=\"34\" font-size=\"16\" font-weight=\"600\">CartPole-v1: mean return of ten "
            "seeds</text>\n");
    for (int value = 0; value <= EPISODE; value += 100)
        fprintf(file,
                "<path class=\"grid\" d=\"M%d %.0fH%d\"/><text class=\"dim\" x=\"%d\" y=\"%.0f\" "
                "text-anchor=\"end\">%d</text>\n",
                LEFT, up(value), RIGHT, LEFT - 8, up(value) + 4, value);
    for (int step = 0; step <= STEPS; step += 20000)
        fprintf(file, "<text class=\"dim\" x=\"%.0f\" y=\"%d\" text-anchor=\"middle\">%d%s</text>\n",
                across(step), BOTTOM + 20, step / 1000, step ? "k" : "");
    fprintf(file, "<text class=\"dim\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">environment steps</text>\n",
            (LEFT + RIGHT) / 2, BOTTOM + 40);
    for (int s = 0; s < SEEDS; ++s) draw_line(file, &curves[s], "stroke-opacity=\".35\"");
    for (int i = 0; i < mean.n; ++i) {
        mean.mean_return[i] = 0;
        for (int s = 0; s < SEEDS; ++s) mean.mean_return[i] += curves[s].mean_return[i] / SEEDS;
    }
    draw_line(file, &mean, "stroke-width=\"3\" stroke-linejoin=\"round\"");
}

/* The cart on its rail of 4.8 m, at twelve times of the episode at most; the last one is drawn in full. */
static void draw_episode(FILE *file, const episode *e, long after, int top) {
    const double meter = 46, middle = 724, ground = top + 61;
    const int every = e->steps / 12 + 1;
    fprintf(file,
            "<rect class=\"panel\" x=\"592\" y=\"%d\" width=\"264\" height=\"88\" rx=\"6\"/>\n"
            "<path class=\"rail\" d=\"M604 %.0fH844\"/>\n",
            top, ground + 5);
    for (int t = e->steps % every; t <= e->steps; t += every) {
        const cartpole *s = &e->state[t];
        const double x = middle + meter * s->x, share = e->steps ? (double)t / e->steps : 1;
        fprintf(file,
                "<g opacity=\"%.2f\"><rect class=\"cart\" x=\"%.1f\" y=\"%.0f\" width=\"20\" height=\"8\" "
                "rx=\"2\"/><path class=\"pole\" stroke-width=\"3\" stroke-linecap=\"round\" "
                "d=\"M%.1f %.0fL%.1f %.1f\"/></g>\n",
                t == e->steps ? 1 : 0.08 + 0.3 * share * share, x - 10, ground - 3, x, ground - 3,
                x + meter * sin(s->theta), ground - 3 - meter * cos(s->theta));
    }
    fprintf(file, "<text class=\"dim\" x=\"604\" y=\"%d\" font-size=\"12\">", top + 82);
    if (after) fprintf(file, "after %ld,000 steps: ", after / 1000);
    else fprintf(file, "before: ");
    if (e->steps == EPISODE) fprintf(file, "stands for all %d</text>\n", EPISODE);
    else fprintf(file, "falls at step %d</text>\n", e->steps);
}

int main(int argc, char **argv) {
    static const long shown[SHOWN] = {0, 10000, STEPS};
    static curve curves[SEEDS];
    static episode episodes[SHOWN];
    const char *path = argc > 1 ? argv[1] : "cartpole.svg";
    for (int s = 0; s < SEEDS; ++s) train((uint64_t)s + 1, &curves[s], shown, s ? NULL : episodes);
    FILE *file = fopen(path, "w");
    if (!file) must(ppo_fail(PPO_ERROR_FILE, "%s cannot be written", path));
    fputs(head, file);
    draw_curves(file, curves);
    for (int k = 0; k < SHOWN; ++k) draw_episode(file, &episodes[k], shown[k], 24 + 98 * k);
    fputs("</svg>\n", file);
    return fclose(file) != 0;
}
