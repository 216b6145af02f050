/* 06b_surrogate.c - what the ratio corrects, and what it does not: why old data reach only so far.

   A ridge of six cells with a pit at its end. A step to the right pays 1, a step to the left nothing; the
   step into the pit costs 20 and ends the episode. The policy has one parameter, p = probability of "right"
   in every cell, so that everything can be computed exactly. Data come from p = 0.3. PPO's objective asks
   how much better the new policy's actions are in the states of the OLD policy:
       L(p) = J(old) + sum over s of d_old(s) sum over a of pi_p(a) A_old(s, a)
   (Kakade and Langford 2002; Schulman 2015, eq. 3). The ratio corrects the actions. It does not correct the
   states: a policy that goes right comes to cells that the old one hardly saw. L touches the true J at the
   old policy, with the same slope, and leaves it. That is why PPO's steps must be small.

   You will see J, L and PPO's clipped objective against p: where each is highest, and that the clip bounds L
   from below, not J. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "lesson.h"

enum { CELLS = 6, POINTS = 181 };

static const double discount = 0.95, pit = -20, old = 0.3, e = 0.2;

/* V of every cell for a policy p; Bellman's equation, iterated until it holds. V[CELLS] is the pit: 0. */
static void values(double p, double V[CELLS + 1]) {
    for (int s = 0; s <= CELLS; s++) V[s] = 0;
    for (int sweep = 0; sweep < 2000; sweep++)
        for (int s = 0; s < CELLS; s++)
            V[s] =
                p * ((s + 1 < CELLS ? 1 : pit) + discount * V[s + 1]) + (1 - p) * discount * V[s ? s - 1 : 0];
}

/* d: how often a cell is seen, discounted, from the first one. */
static void visits(double p, double d[CELLS]) {
    double now[CELLS] = {1};
    for (int s = 0; s < CELLS; s++) d[s] = 0;
    for (int t = 0; t < 2000; t++) {
        double next[CELLS] = {0};
        for (int s = 0; s < CELLS; s++) {
            d[s] += now[s];
            next[s ? s - 1 : 0] += discount * (1 - p) * now[s];
            if (s + 1 < CELLS) next[s + 1] += discount * p * now[s];
        }
        memcpy(now, next, sizeof now);
    }
}

int main(int argc, char **argv) {
    static float x[POINTS], J[POINTS], L[POINTS], clipped[POINTS], shift[POINTS];
    double V[CELLS + 1], W[CELLS + 1], d[CELLS], d_new[CELLS];
    int best_J = 0, best_L = 0, best_clip = 0, at_old = 0;
    (void)lesson_seed(argc, argv); /* nothing here is random */
    values(old, V), visits(old, d);
    for (int k = 0; k < POINTS; k++) {
        double p = 0.05 + 0.005 * k;
        values(p, W), visits(p, d_new);
        x[k] = (float)p, J[k] = (float)W[0];
        double plain = V[0], low = V[0];
        for (int s = 0; s < CELLS; s++)
            for (int right = 0; right < 2; right++) {
                double A =
                    (right ? (s + 1 < CELLS ? 1 : pit) + discount * V[s + 1] : discount * V[s ? s - 1 : 0]) -
                    V[s];
                double pi_old = right ? old : 1 - old, r = (right ? p : 1 - p) / pi_old;
                float logp = (float)log(r), zero = 0, gain = (float)A;
                ppo_policy_objective how = {PPO_CLIP, (float)e, (float)e, 0, 0};
                ppo_policy_stats stats;
                must(ppo_policy_loss(&logp, &zero, &gain, NULL, 1, &how, &stats, NULL));
                plain += d[s] * pi_old * r * A, low -= d[s] * pi_old * (double)stats.loss;
            }
        L[k] = (float)plain, clipped[k] = (float)low;
        for (int s = 0; s < CELLS; s++) shift[k] += (float)(0.5 * (1 - discount) * fabs(d_new[s] - d[s]));
        best_J = J[k] > J[best_J] ? k : best_J, best_L = L[k] > L[best_L] ? k : best_L;
        best_clip = clipped[k] > clipped[best_clip] ? k : best_clip;
        at_old = fabs(p - old) < fabs((double)x[at_old] - old) ? k : at_old;
    }
    printf("    p    true J   L (old states)   clipped   ratio of \"right\"   states changed\n");
    for (int k = 10; k < POINTS; k += 20)
        printf("%5.2f %9.2f %16.2f %9.2f %18.2f %15.0f %%\n", (double)x[k], (double)J[k], (double)L[k],
               (double)clipped[k], (double)x[k] / old, 100 * (double)shift[k]);
    printf("highest: J at p = %.2f, the clipped objective at %.2f, L at %.2f\n", (double)x[best_J],
           (double)x[best_clip], (double)x[best_L]);
    chart c = {.title = "The objective and the truth; data from p = 0.3",
               .x_label = "p, the new policy's probability of \"right\"",
               .y_label = "return",
               .y = {-6, 12}};
    chart_line(&c, "true J", x, J, POINTS);
    chart_line(&c, "L: r A", x, L, POINTS);
    chart_line(&c, "clipped", x, clipped, POINTS);
    chart_points(&c, "old policy", &x[at_old], &J[at_old], 1);
    chart_save(&c, "build/lessons/06b_surrogate.svg");
    double slope_J = (double)(J[at_old + 2] - J[at_old - 2]),
           slope_L = (double)(L[at_old + 2] - L[at_old - 2]);
    claim(fabs((double)(J[at_old] - L[at_old])) < 1e-3 && fabs(slope_J - slope_L) < 0.1 * fabs(slope_L),
          "at the old policy L has the value and the slope of J");
    claim(J[best_L] < J[at_old] - 10, "where L is highest the true return is %.1f, not %.1f",
          (double)J[best_L], (double)J[at_old]);
    claim(x[best_clip] < 0.45f && J[best_clip] > J[at_old] - 0.7f,
          "the clipped objective is highest at p = %.2f: J = %.2f", (double)x[best_clip],
          (double)J[best_clip]);
    int below_L = 1, below_J = 1;
    for (int k = 0; k < POINTS; k++)
        below_L &= clipped[k] <= L[k] + 1e-3f, below_J &= clipped[k] <= J[k] + 1e-3f;
    claim(below_L && !below_J, "the clip is a lower bound of L, not of J");
    return lesson_failures > 0;
}
