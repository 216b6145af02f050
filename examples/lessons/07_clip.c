/* 07_clip.c - the clip, one sample at a time: four cases, and what it does not do.

   PPO maximizes the mean of  min(r A, clip(r, 1 - e, 1 + e) A),  r = pi_new(action) / pi_old(action)
   (Schulman 2017, eq. 7). The library minimizes, so gain and gradient here have the opposite sign. Where the
   gain is r A its gradient along log pi_new(action) is r A, too, because d r / d log pi = r; where it is flat
   there is none.

       A > 0, r > 1 + e   a good action, already much more likely: clipped, no gradient
       A > 0, r < 1 + e   gradient r A: make it more likely; weaker where r < 1, however far that is
       A < 0, r < 1 - e   a bad action, already much less likely: clipped, no gradient
       A < 0, r > 1 - e   gradient r A: make it less likely; the stronger, the larger r is, without a bound:
                          the dual clip (Ye 2020) sets one, c A

   You will see these cases, and three samples that share a weight: outside the range the gradient of a sample
   is 0, it does not point back, and the other samples move its ratio further. The clip is no constraint. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "lesson.h"

enum { POINTS = 121, SAMPLES = 3, EPOCHS = 10 };

static const float clip = 0.2f; /* e */

static ppo_policy_stats policy_loss(const float *logp, const float *old_logp, const float *A, int n,
                                    float dual_clip, float *grad_logp) {
    ppo_policy_objective objective = {PPO_CLIP, clip, clip, dual_clip, 0};
    ppo_policy_stats stats;
    must(ppo_policy_loss(logp, old_logp, A, NULL, n, &objective, &stats, grad_logp));
    return stats;
}

/* The gain of one sample, and its gradient along log pi_new(action). */
static float gain(float r, float A, float dual_clip, float *gradient) {
    float logp = logf(r), old_logp = 0, grad_logp;
    float loss = policy_loss(&logp, &old_logp, &A, 1, dual_clip, &grad_logp).loss;
    *gradient = 0 - grad_logp;
    return 0 - loss;
}

static float print_case(float r, float A, float dual_clip) {
    float gradient, g = gain(r, A, dual_clip, &gradient), clipped = fminf(fmaxf(r, 1 - clip), 1 + clip);
    const char *is = r > 1 ? "now more likely" : r < 1 ? "now less likely" : "as likely as before";
    const char *does = r == 1            ? "start"
                       : A * (r - 1) < 0 ? "undo it"
                       : gradient != 0   ? "go on"
                                         : "far enough";
    if (A * (r - 1) < 0 && gradient == 0) does = "dual clip";
    printf("%4.0f %6.2f %7.2f %10.2f %6.2f %9.2f   a %s action, %s: %s\n", (double)A, (double)r,
           (double)(r * A), (double)(clipped * A), (double)g, (double)gradient, A > 0 ? "good" : "bad", is,
           does);
    return gradient;
}

/* Three states, each with one feature x, and one weight w for all: pi(act | x) = sigmoid(w x). In each state
   the policy acted, and the action was good. The epochs ascend the mean gain, as PPO does. Returns how far
   the ratio of the sample that is first to leave the range moves after it has left. curve: each ratio. */
static float share_a_weight(float w, float curve[SAMPLES][EPOCHS]) {
    const float x[SAMPLES] = {3, 1, 0.5f}, A[SAMPLES] = {1, 1, 1}, rate = 0.1f;
    float old_logp[SAMPLES], logp[SAMPLES], grad[SAMPLES], left_at = 0;
    printf("\nThree good samples, one weight: %.2f at first\n"
           "        ratio of sample     gradient of weight     approx KL\n"
           "epoch     1     2     3       1      2      3\n",
           (double)w);
    for (int epoch = 1; epoch <= EPOCHS; epoch++) {
        float push[SAMPLES];
        for (int i = 0; i < SAMPLES; i++) {
            logp[i] = -log1pf(expf(-w * x[i]));
            if (epoch == 1) old_logp[i] = logp[i];
        }
        ppo_policy_stats stats = policy_loss(logp, old_logp, A, SAMPLES, 0, grad);
        for (int i = 0; i < SAMPLES; i++) { /* d log sigmoid(w x) / d w = x (1 - sigmoid(w x)) */
            curve[i][epoch - 1] = expf(logp[i] - old_logp[i]);
            push[i] = 0 - grad[i] * x[i] * (1 - expf(logp[i]));
        }
        const float a = curve[0][epoch - 1], b = curve[1][epoch - 1], c = curve[2][epoch - 1];
        if (left_at == 0 && a > 1 + clip) left_at = a;
        printf("%5d %5.2f %5.2f %5.2f  %6.3f %6.3f %6.3f   %8.3f\n", epoch, (double)a, (double)b, (double)c,
               (double)push[0], (double)push[1], (double)push[2], (double)stats.approx_kl);
        for (int i = 0; i < SAMPLES; i++) w += rate * push[i];
    }
    const float last = curve[0][EPOCHS - 1];
    printf("Sample 1 left the range at %.2f; the others moved it to %.2f.\n", (double)left_at, (double)last);
    return last - left_at;
}

int main(int argc, char **argv) {
    ppo_rng rng = ppo_rng_stream(lesson_seed(argc, argv), PPO_STREAM_USER, 0);
    float g[8], r[POINTS], good[POINTS], bad[POINTS], ignored;
    printf("One sample, e = %.1f: the gain is the smaller of r A and clip(r) A\n\n"
           "   A      r     r A  clip(r) A   gain  gradient\n",
           (double)clip);
    for (int k = 0; k < 6; k++) g[k] = print_case(1 + 0.4f * (float)(k % 3 - 1), k < 3 ? 1 : -1, 0);
    g[6] = print_case(4, -1, 0);
    printf("with the dual clip at c = 3:\n");
    g[7] = print_case(4, -1, 3);
    float curve[SAMPLES][EPOCHS], epoch[EPOCHS];
    float moved = share_a_weight(ppo_rng_range(&rng, -1.2f, -0.8f), curve);

    for (int i = 0; i < POINTS; i++) {
        r[i] = 0.4f + 1.2f * (float)i / (POINTS - 1);
        good[i] = gain(r[i], 1, 0, &ignored);
        bad[i] = gain(r[i], -1, 0, &ignored);
    }
    chart c = {.title = "The clip: gain of one sample, e = 0.2",
               .x_label = "r = pi_new / pi_old",
               .y_label = "gain"};
    c.x[0] = 0.4, c.x[1] = 1.6, c.y[0] = -1.7, c.y[1] = 1.7;
    chart_shade(&c, "no gradient", 1.2, NAN, 0, NAN);
    chart_shade(&c, "no gradient", NAN, 0.8, NAN, 0);
    chart_line_at(&c, "1 - e", 0.8), chart_line_at(&c, "1", 1), chart_line_at(&c, "1 + e", 1.2);
    chart_line(&c, "a good action, A = 1", r, good, POINTS);
    chart_line(&c, "a bad one, A = -1", r, bad, POINTS);
    chart_save(&c, "build/lessons/07_clip.svg");

    chart drift = {.title = "Three good samples share one weight", .x_label = "epoch", .y_label = "ratio"};
    for (int k = 0; k < EPOCHS; k++) epoch[k] = (float)(k + 1);
    chart_shade(&drift, "no gradient of its own", NAN, NAN, 1.2, NAN);
    for (int i = 0; i < SAMPLES; i++)
        chart_line(&drift, &"sample 1\0sample 2\0sample 3"[9 * i], epoch, curve[i], EPOCHS);
    chart_save(&drift, "build/lessons/07_drift.svg");

    claim(g[2] == 0 && g[3] == 0, "no gradient where a change for the better went far enough");
    claim(g[0] > 0 && g[1] > g[0] && g[4] < 0 && g[5] < g[4],
          "the gradient r A everywhere else: weak for an action that has become unlikely");
    claim(g[6] < -3 && g[7] == 0, "only the dual clip bounds a bad action that has become 4 times as likely");
    claim(moved > 0.02f, "a ratio moves on after it has left the range: the clip is no constraint");
    return lesson_failures > 0;
}
