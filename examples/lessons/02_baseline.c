/* 02_baseline.c - a baseline takes the noise out of the policy gradient and leaves its mean.

   The bandit of lesson 1, with 10 added to every reward. The better actions stay the same and so does the
   gradient, but each sample is multiplied by a number near 10. Subtracting a baseline b that does not depend
   on the action changes nothing on average, because E[grad log pi(a)] = 0 (Williams 1992; Sutton and Barto
   2018, 13.4):
       grad J = E[ (R - b) grad log pi(a) ].
   The best b is E[R |grad log pi|^2] / E[|grad log pi|^2]; the mean reward, which a critic learns, is near
   it.

   You will see mean and standard deviation against b, and what goes wrong if b depends on the action. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "lesson.h"

enum { ACTIONS = 4, SAMPLES = 200000, POINTS = 41 };

static const float logits[ACTIONS] = {0.4f, 0, -0.3f, 0.1f}, q[ACTIONS] = {11, 12, 13, 10};

static int action[SAMPLES];
static float reward[SAMPLES], score[SAMPLES][ACTIONS]; /* grad log pi(action) */

/* Mean [ACTIONS] of (R - b) grad log pi, and its standard deviation for one sample. b NULL: zeros. */
static double estimate(const float b[ACTIONS], double mean[ACTIONS]) {
    double squares = 0, variance;
    for (int a = 0; a < ACTIONS; a++) mean[a] = 0;
    for (int i = 0; i < SAMPLES; i++)
        for (int a = 0; a < ACTIONS; a++) {
            double g = (double)((reward[i] - b[action[i]]) * score[i][a]);
            mean[a] += g / SAMPLES;
            squares += g * g / SAMPLES;
        }
    variance = squares;
    for (int a = 0; a < ACTIONS; a++) variance -= mean[a] * mean[a];
    return sqrt(variance);
}

static double distance(const double x[ACTIONS], const double y[ACTIONS]) {
    double squares = 0;
    for (int a = 0; a < ACTIONS; a++) squares += (x[a] - y[a]) * (x[a] - y[a]);
    return sqrt(squares);
}

int main(int argc, char **argv) {
    ppo_rng rng = ppo_rng_stream(lesson_seed(argc, argv), PPO_STREAM_USER, 0);
    static float one[SAMPLES], x[POINTS], noise[POINTS], error[POINTS];
    double exact[ACTIONS], J = 0, weighted = 0, weight = 0, mean[ACTIONS], most = 0;
    for (int a = 0; a < ACTIONS; a++) {
        float logp;
        must(ppo_token_logp(logits, &a, 1, ACTIONS, 1, &logp, NULL));
        exact[a] = exp((double)logp);
        J += exact[a] * (double)q[a];
    }
    for (int a = 0; a < ACTIONS; a++) exact[a] *= (double)q[a] - J;

    /* The same samples for every baseline. All scores at once: rows of equal logits. */
    static float rows[SAMPLES][ACTIONS];
    for (int i = 0; i < SAMPLES; i++) {
        memcpy(rows[i], logits, sizeof logits);
        action[i] = ppo_categorical_sample(logits, ACTIONS, 1, &rng);
        reward[i] = q[action[i]] + ppo_rng_normal(&rng);
        one[i] = 1;
    }
    must(ppo_token_logp_backward(rows[0], action, one, NULL, SAMPLES, ACTIONS, 1, score[0]));
    for (int i = 0; i < SAMPLES; i++) {
        double length2 = 0;
        for (int a = 0; a < ACTIONS; a++) length2 += (double)(score[i][a] * score[i][a]);
        weighted += length2 * (double)reward[i];
        weight += length2;
    }
    double best = weighted / weight;

    for (int k = 0; k < POINTS; k++) {
        x[k] = 20 * (float)k / (POINTS - 1);
        float b[ACTIONS] = {x[k], x[k], x[k], x[k]};
        noise[k] = (float)estimate(b, mean);
        error[k] = (float)distance(mean, exact);
        most = fmax(most, (double)error[k] / ((double)noise[k] / sqrt(SAMPLES)));
    }
    float none[ACTIONS] = {0}, average[ACTIONS], optimal[ACTIONS];
    for (int a = 0; a < ACTIONS; a++) average[a] = (float)J, optimal[a] = (float)best;
    double at_none = estimate(none, mean), at_average = estimate(average, mean),
           at_best = estimate(optimal, mean);
    printf("noise of one sample: %.2f without a baseline; %.2f with the mean reward, %.2f; %.2f with the "
           "best, %.2f\n",
           at_none, at_average, J, at_best, best);
    printf("one sample with the mean reward as baseline is worth %.0f without one\n",
           at_none * at_none / (at_average * at_average));

    /* A "baseline" that depends on the action: what each action pays. Nothing is left to learn from. */
    double noise_q = estimate(q, mean), off = distance(mean, exact),
           length = distance(exact, (double[ACTIONS]){0});
    printf("with b = q[action]: noise %.2f, but the mean gradient is wrong by %.0f %% of its length\n\n",
           noise_q, 100 * off / length);

    char label[64];
    snprintf(label, sizeof label, "baseline b (the mean reward is %.2f)", J);
    chart c = {.title = "One sample of (R - b) grad log pi", .x_label = label};
    chart_line(&c, "standard deviation", x, noise, POINTS);
    chart_line(&c, "distance of the mean from the gradient", x, error, POINTS);
    chart_save(&c, "build/lessons/02_baseline.svg");

    claim(most < 4.5, "no baseline moves the mean: at most %.1f standard errors from the exact gradient",
          most);
    claim(at_average < at_none / 5, "the mean reward as the baseline: the noise is %.0f times smaller",
          at_none / at_average);
    claim(at_best <= at_average * 1.001 && at_average < 1.1 * at_best,
          "it is within a tenth of the best one");
    claim(off > length / 2, "a baseline that depends on the action is not one");
    return lesson_failures > 0;
}
