/* 10b_async.c - A3C, A2C and PPO on CartPole: threads that do not wait, one gradient of all, many of each.

   A3C (Mnih 2016): each thread has an environment and a copy of the weights. It plays 20 steps, computes a
   gradient with its copy, adds it to the common weights, takes these as its new copy, and never waits for the
   others. By then they have changed the weights, too: a gradient is late by some updates. A2C waits: eight
   environments side by side, one gradient of all; nothing is late, and the network sees eight observations at
   once. PPO goes on from there: 128 steps of each, and 8 epochs over them, held by the clip.

   You will see the score of each (mean return over the run, 0 to 100) after equally many steps, the seconds,
   how late A3C's gradients are, and that A2C repeats a run to the bit, while A3C does not: the order of threads
   is chance. Rates were chosen among several for each. */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "../envs/cartpole.h"

#include "lesson.h"
#include "worker.h"

enum { A3C, A2C, PPO, METHODS, THREADS = 8, SEEDS = 16, TOTAL = 120000, POINTS = 12 };

static const char *const names[METHODS] = {"A3C", "A2C", "PPO"};
static const float rate[METHODS] = {3e-4f, 2e-3f, 1e-3f};
static worker common;
static long updates, late;               /* under `lock` */
static float sum[POINTS], count[POINTS]; /* returns of episodes, by when they ended */

static void note(float its_return) {
    int point = (int)(played * POINTS / TOTAL);
    if (point >= POINTS) point = POINTS - 1;
    sum[point] += its_return, count[point]++;
}

/* Adds a gradient to the common weights; the rate falls to 0. */
static void add(const ppo_params *from, float rate) {
    ppo_adam adam = ppo_adam_default();
    adam.lr = rate * fmaxf(0, 1 - (float)played / TOTAL);
    if (from != common.params) memcpy(common.params->grad, from->grad, sizeof(float) * from->count);
    must(ppo_params_step(common.params, &adam, 0.5f, NULL));
    updates++;
}

static void *thread(void *argument) {
    worker *w = (worker *)argument;
    int order[20];
    for (int i = 0; i < 20; i++) order[i] = i;
    for (int over = 0; !over;) {
        pthread_mutex_lock(&lock);
        long seen = updates;
        memcpy(w->params->data, common.params->data, sizeof(float) * w->params->count);
        pthread_mutex_unlock(&lock);
        collect(w), gradient(w, order, 20, PPO_UNCLIPPED);
        pthread_mutex_lock(&lock);
        late += updates - seen;
        add(w->params, rate[A3C]);
        over = played >= TOTAL;
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

/* A run; returns its score, and in seconds how long it took. */
static float train(int method, uint64_t seed, double *seconds) {
    static worker of[THREADS];
    pthread_t id[THREADS];
    double start = ppo_clock();
    played = updates = late = 0, on_episode = note;
    memset(sum, 0, sizeof sum), memset(count, 0, sizeof count), memset(&common, 0, sizeof common),
        memset(of, 0, sizeof of);
    common.rng = ppo_rng_stream(seed, PPO_STREAM_USER, 100);
    begin(&common, 8, method == PPO ? 128 : 20, seed);
    if (method == A3C) {
        for (int k = 0; k < THREADS; k++) {
            of[k].rng = ppo_rng_stream(seed, PPO_STREAM_USER, (uint32_t)k);
            begin(&of[k], 1, 20, seed);
            if (pthread_create(&id[k], NULL, thread, &of[k])) exit(1);
        }
        for (int k = 0; k < THREADS; k++)
            pthread_join(id[k], NULL), ppo_params_free(of[k].params), ppo_tape_free(of[k].tape);
    } else {
        int order[MOST_STEPS * MOST_ENVS], n = common.steps * common.envs, batch = method == PPO ? 256 : n;
        for (int i = 0; i < n; i++) order[i] = i;
        while (played < TOTAL) {
            collect(&common);
            for (int epoch = 0; epoch < (method == PPO ? 8 : 1); epoch++) {
                ppo_rng_shuffle(&common.rng, order, n);
                for (int from = 0; from < n; from += batch)
                    gradient(&common, order + from, batch, method == PPO ? PPO_CLIP : PPO_UNCLIPPED),
                        add(common.params, rate[method]);
            }
        }
    }
    *seconds += ppo_clock() - start;
    float score = 0, last = 0;
    for (int k = 0; k < POINTS; k++)
        last = count[k] > 0 ? sum[k] / count[k] : last, score += 100 * (last - 20) / (480 * POINTS);
    return score;
}

/* Does the same seed give the same weights twice? */
static int again(int method, uint64_t seed) {
    float weight[2];
    double unused = 0;
    for (int k = 0; k < 2; k++) {
        train(method, seed, &unused);
        weight[k] = common.params->data[0];
        ppo_params_free(common.params), ppo_tape_free(common.tape);
    }
    return weight[0] == weight[1];
}

int main(int argc, char **argv) {
    uint64_t seed = lesson_seed(argc, argv);
    float score[METHODS][SEEDS], mean[METHODS], low[METHODS], high[METHODS];
    double seconds[METHODS] = {0}, lateness = 0;
    printf("                score   seconds for %d steps   updates\n", TOTAL);
    for (int m = 0; m < METHODS; m++) {
        for (int k = 0; k < SEEDS; k++) {
            score[m][k] = train(m, seed * 100 + (uint64_t)k, &seconds[m]);
            if (m == A3C) lateness += (double)late / (double)updates / SEEDS;
            ppo_params_free(common.params), ppo_tape_free(common.tape);
        }
        double half = interval_of(score[m], SEEDS);
        mean[m] = (float)mean_of(score[m], SEEDS), low[m] = mean[m] - (float)half,
        high[m] = mean[m] + (float)half;
        printf("  %-6s %7.1f +- %4.1f %16.2f %14ld\n", names[m], (double)mean[m], half, seconds[m] / SEEDS,
               updates);
    }
    chart c = {.title = "CartPole, 120,000 steps: score with 95 % intervals",
               .x_label = "mean return over the run, 0 to 100",
               .rows = names,
               .row_count = METHODS};
    chart_rows(&c, NULL, mean, low, high, METHODS);
    chart_save(&c, "build/lessons/10b_async.svg");
    claim(lateness > 0.1, "A3C's gradients are late by %.1f updates on average", lateness);
    claim(again(A2C, seed) && !again(A3C, seed), "A2C repeats a run, A3C does not");
    claim(better_by(score[PPO], score[A2C], SEEDS) > 0 && better_by(score[PPO], score[A3C], SEEDS) > 0,
          "PPO learns more from a step than A2C and A3C, by %.0f and %.0f at least",
          better_by(score[PPO], score[A2C], SEEDS), better_by(score[PPO], score[A3C], SEEDS));
    claim(seconds[A2C] < 0.6 * seconds[PPO], "and takes longer for it: A2C %.0f %% of PPO's time",
          100 * seconds[A2C] / seconds[PPO]);
    return lesson_failures > 0;
}
