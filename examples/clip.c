/* clip.c - the ratio and the clip, one sample at a time.

   PPO maximizes the mean of  min(r A, clip(r, 1 - e, 1 + e) A),  r = pi_new(action) / pi_old(action)
   (Schulman 2017, eq. 7). This lesson shows when a sample has a gradient and when it has none, what the dual
   clip adds (Ye 2020), and what the clip does not do: keep the ratio in its range. You will see the cases as
   a table, gain and gradient as curves, and three samples that share a weight: outside the range the
   gradient of a sample is 0, it does not point back, and the other samples move its ratio further. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 31, ROWS = 9, SAMPLES = 3, EPOCHS = 10 };

static const float clip = 0.2f; /* e */

static ppo_policy_stats policy_loss(const float *logp, const float *old_logp, const float *A, int n,
                                    float dual_clip, float *grad_logp) {
    ppo_policy_objective objective = {PPO_CLIP, clip, clip, dual_clip, 0};
    ppo_policy_stats     stats;
    if (ppo_policy_loss(logp, old_logp, A, NULL, n, &objective, &stats, grad_logp) != PPO_OK) {
        fprintf(stderr, "%s\n", ppo_last_error());
        exit(1);
    }
    return stats;
}

/* The gain of one sample, and its gradient along log pi_new(action), where the backward pass of a network
   begins. The library minimizes, so both change sign here. d r / d log pi = r: where the gain is r A, the
   gradient is r A, too. */
static float gain(float r, float A, float dual_clip, float *gradient) {
    float logp = logf(r), old_logp = 0, grad_logp;
    float loss = policy_loss(&logp, &old_logp, &A, 1, dual_clip, &grad_logp).loss;
    *gradient = 0 - grad_logp;
    return 0 - loss;
}

static void print_case(float r, float A, float dual_clip) {
    float gradient, g = gain(r, A, dual_clip, &gradient), clipped = fminf(fmaxf(r, 1 - clip), 1 + clip);
    printf("%4.0f %6.2f %7.2f %10.2f", (double)A, (double)r, (double)(r * A), (double)(clipped * A));
    if (dual_clip > 1) printf(" %6.2f", (double)(dual_clip * A));
    else printf("      -");
    printf(" %6.2f %9.2f   a %s action, %s: %s\n", (double)g, (double)gradient, A > 0 ? "good" : "bad",
           r > 1   ? "now more likely"
           : r < 1 ? "now less likely"
                   : "as likely as before",
           r == 1            ? "start"
           : gradient != 0   ? "undo it"
           : A * (r - 1) > 0 ? "far enough"
                             : "dual clip");
}

/* Gain and gradient against r, side by side. Below, bars mark 1 - e, 1, 1 + e and the dual clip c. */
static void draw_case(float A, float dual_clip, float low, float high) {
    float y[2][COLUMNS], bottom[2] = {0, 0}, top[2] = {0, 0}, step = (high - low) / (COLUMNS - 1);
    char  name[64], axis[COLUMNS + 1];
    for (int i = 0; i < COLUMNS; i++) {
        y[0][i] = gain(low + step * (float)i, A, dual_clip, &y[1][i]);
        for (int k = 0; k < 2; k++) {
            bottom[k] = fminf(bottom[k], y[k][i]);
            top[k] = fmaxf(top[k], y[k][i]);
        }
    }
    snprintf(name, sizeof name, "gain, A = %+.0f%s", (double)A, dual_clip > 1 ? ", dual clip" : "");
    printf("\n        %-*s         gradient\n", COLUMNS, name);
    for (int row = ROWS - 1; row >= 0; row--) {
        for (int k = 0; k < 2; k++) {
            float unit = (top[k] - bottom[k]) / (ROWS - 1);
            printf("%7.2f |", (double)(bottom[k] + unit * (float)row));
            for (int i = 0; i < COLUMNS; i++) {
                int on_curve = lroundf((y[k][i] - bottom[k]) / unit) == row,
                    zero = lroundf(-bottom[k] / unit) == row;
                putchar(on_curve ? '*' : zero ? '-' : ' ');
            }
        }
        putchar('\n');
    }
    const float marks[] = {1 - clip, 1, 1 + clip, dual_clip};
    memset(axis, ' ', COLUMNS);
    for (int i = 0; i < 4; i++)
        if (marks[i] > low && marks[i] < high) axis[lroundf((marks[i] - low) / step)] = '|';
    printf("%9s%.*s%9s%.*s\n", "", COLUMNS, axis, "", COLUMNS, axis);
    for (int k = 0; k < 2; k++)
        printf("%9s%-*.2f%*.2f", "", COLUMNS / 2, (double)low, COLUMNS - COLUMNS / 2, (double)high);
    putchar('\n');
}

/* Three states, each with one feature x, and one weight w for all: pi(act | x) = sigmoid(w x). In each state
   the policy acted, and the action was good. The epochs ascend the mean gain of the three, as PPO does. In
   the first epoch every ratio is 1 and nothing is clipped: only the learning rate limits how far it goes. KL
   is approx_kl, which ppo_config.target_kl limits. */
static void share_a_weight(void) {
    const float x[SAMPLES] = {3, 1, 0.5f}, A[SAMPLES] = {1, 1, 1}, rate = 0.1f;
    float old_logp[SAMPLES], logp[SAMPLES], grad[SAMPLES], ratio[SAMPLES], at_exit[SAMPLES] = {0}, w = -1;
    int   exit_epoch[SAMPLES] = {0};
    printf("\nThree good samples, one weight\n\n"
           "        ratio of sample     gradient of weight       KL   ratios; bars: 1 and 1.2\n"
           "epoch     1     2     3       1      2      3\n");
    for (int epoch = 1; epoch <= EPOCHS; epoch++) {
        char  line[] = "     |    |                                   "; /* 1 and 1.2: 25 columns are 1 */
        float push[SAMPLES];
        for (int i = 0; i < SAMPLES; i++) {
            logp[i] = -log1pf(expf(-w * x[i]));
            if (epoch == 1) old_logp[i] = logp[i];
        }
        ppo_policy_stats stats = policy_loss(logp, old_logp, A, SAMPLES, 0, grad);
        for (int i = 0; i < SAMPLES; i++) {
            ratio[i] = expf(logp[i] - old_logp[i]);
            push[i] = 0 - grad[i] * x[i] *
                              (1 - expf(logp[i])); /* d log sigmoid(w x) / d w = x (1 - sigmoid(w x)) */
            if (!exit_epoch[i] && ratio[i] > 1 + clip) {
                exit_epoch[i] = epoch;
                at_exit[i] = ratio[i];
            }
            long column = 5 + lroundf(25 * (ratio[i] - 1));
            if (column >= 0 && column < (long)sizeof line - 1) line[column] = (char)('1' + i);
        }
        printf("%5d %5.2f %5.2f %5.2f  %6.3f %6.3f %6.3f   %6.3f   %s\n", epoch, (double)ratio[0],
               (double)ratio[1], (double)ratio[2], (double)push[0], (double)push[1], (double)push[2],
               (double)stats.approx_kl, line);
        for (int i = 0; i < SAMPLES; i++) w += rate * push[i];
    }
    for (int i = 0; i < SAMPLES; i++)
        if (exit_epoch[i])
            printf(
                "Sample %d left the range before epoch %d, with ratio %.2f; the others moved it to %.2f.\n",
                i + 1, exit_epoch[i], (double)at_exit[i], (double)ratio[i]);
}

int main(void) {
    printf("One sample, e = %.1f: the gain is the smaller of r A and clip(r) A; with the dual clip at least "
           "c A\n\n"
           "   A      r     r A  clip(r) A    c A   gain  gradient\n",
           (double)clip);
    for (int A = 1; A >= -1; A -= 2)
        for (int k = -1; k <= 1; k++) print_case(1 + 0.4f * (float)k, (float)A, 0);
    print_case(4, -1, 0);
    print_case(4, -1, 3);

    draw_case(1, 0, 0.25f, 1.75f);
    draw_case(-1, 0, 0.25f, 1.75f);
    draw_case(-1, 3, 0.5f, 5);
    share_a_weight();
}
