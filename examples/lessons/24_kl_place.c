/* 24_kl_place.c - the KL in the loss or in the reward: a good estimate need not have a good gradient.

   The aim is a policy near the reference: less KL(pi || ref). Its gradient is wanted; automatic
   differentiation gives that of the term which stands in the program. For samples of pi itself, with l = log
   ref - log pi:
       k1 in the loss        E[grad log pi] = 0: no constraint at all
       k2 in the loss        E[-l grad log pi]: the gradient of KL(pi || ref)
       k3 in the loss        E[(1 - exp(l)) grad log pi]: that of KL(ref || pi), the other direction (GRPO)
       k1 in the reward      a cost c: E[c grad log pi], the gradient of KL(pi || ref)  (InstructGPT)
       r k3 in the loss      weighted by r = pi / old: that of KL(pi || ref), also when old is not pi
   You will see the cosine of each expected gradient with both exact ones, for samples of pi and of an older
   policy. Then descent along sampled gradients: what each term leads to. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "lesson.h"

enum { VOCAB = 12, TERMS = 5, STEPS = 300, BATCH = 64 };
enum { K1, K2, K3, REWARD, WEIGHTED };

static const char *const names[] = {"k1 in the loss", "k2 in the loss", "k3 in the loss", "k1 in the reward",
                                    "r k3 in the loss"};

/* d term / d log pi of a token, by which automatic differentiation multiplies grad log pi. */
static double derivative(int term, double logp, double ref_logp, double old_logp) {
    double l = ref_logp - logp, r = exp(logp - old_logp);
    switch (term) {
    case K1:
        return 1;
    case K2:
        return -l;
    case K3:
        return 1 - exp(l);
    case REWARD:
        return old_logp -
               ref_logp; /* the cost: k1 when it was sampled. It is multiplied, not differentiated */
    default:
        return r * (exp(l) - 1 - l) + r * (1 - exp(l));
    }
}

static void log_softmax(const float *logits, double *logp) {
    for (int a = 0; a < VOCAB; a++) {
        float one;
        must(ppo_token_logp(logits, &a, 1, VOCAB, 1, &one, NULL));
        logp[a] = (double)one;
    }
}

/* The gradient along the logits of sum of weight[a] log pi(a): weight[a] - pi(a) sum of weight. */
static void gradient(const double *weight, const double *logp, double *g) {
    double sum = 0;
    for (int a = 0; a < VOCAB; a++) sum += weight[a];
    for (int a = 0; a < VOCAB; a++) g[a] = weight[a] - exp(logp[a]) * sum;
}

static double cosine(const double *x, const double *y) {
    double xy = 0, xx = 1e-20, yy = 1e-20;
    for (int a = 0; a < VOCAB; a++) xy += x[a] * y[a], xx += x[a] * x[a], yy += y[a] * y[a];
    return xx < 1e-14 ? 0 : xy / sqrt(xx * yy);
}

int main(int argc, char **argv) {
    static float x[STEPS], curve[TERMS][STEPS];
    float ref[VOCAB], start[VOCAB], older[VOCAB];
    double same[TERMS], later[TERMS], other[TERMS], forward[VOCAB], reverse[VOCAB], w[VOCAB], g[VOCAB];
    double ref_logp[VOCAB], logp[VOCAB], old_logp[VOCAB];
    ppo_rng rng = ppo_rng_stream(lesson_seed(argc, argv), PPO_STREAM_USER, 0);
    for (int a = 0; a < VOCAB; a++) {
        ref[a] = ppo_rng_normal(&rng);
        start[a] = ref[a] + 1.5f * ppo_rng_normal(&rng);
        older[a] = start[a] + 1.5f * ppo_rng_normal(&rng);
    }
    log_softmax(ref, ref_logp);
    log_softmax(start, logp);
    for (int a = 0; a < VOCAB; a++) w[a] = exp(logp[a]) * (logp[a] - ref_logp[a]);
    gradient(w, logp, forward); /* of KL(pi || ref) */
    for (int a = 0; a < VOCAB; a++) w[a] = -exp(ref_logp[a]);
    gradient(w, logp, reverse); /* of KL(ref || pi) */

    printf("cosine of the gradient with that of   KL(pi || ref)   KL(ref || pi)   KL(pi || ref)\n"
           "                     samples are of        pi              pi            an older pi\n");
    for (int k = 0; k < TERMS; k++) {
        for (int old = 0; old < 2; old++) {
            log_softmax(old ? older : start, old_logp);
            for (int a = 0; a < VOCAB; a++)
                w[a] = exp(old_logp[a]) * derivative(k, logp[a], ref_logp[a], old_logp[a]);
            gradient(w, logp, g);
            (old ? later : same)[k] = cosine(g, forward);
            if (!old) other[k] = cosine(g, reverse);
        }
        printf("%-32s %16.3f %15.3f %15.3f\n", names[k], same[k], other[k], later[k]);
    }
    chart c = {.title = "Descent along each term",
               .x_label = "steps, each with 64 samples of pi",
               .y_label = "KL(pi || ref)",
               .log_y = 1};
    for (int k = 0; k < TERMS; k++) {
        float pi[VOCAB];
        memcpy(pi, start, sizeof pi);
        for (int step = 0; step < STEPS; step++) {
            must(ppo_categorical_kl(pi, ref, 1, VOCAB, &curve[k][step]));
            x[step] = (float)step;
            log_softmax(pi, logp);
            memset(w, 0, sizeof w);
            for (int i = 0, a; i < BATCH; i++)
                a = ppo_categorical_sample(pi, VOCAB, 1, &rng),
                w[a] += derivative(k, logp[a], ref_logp[a], logp[a]) / BATCH;
            gradient(w, logp, g);
            for (int a = 0; a < VOCAB; a++) pi[a] -= 0.2f * (float)fmin(fmax(g[a], -1), 1);
        }
        chart_line(&c, names[k], x, curve[k], STEPS);
    }
    chart_save(&c, "build/lessons/24_kl_place.svg");
    claim(same[K1] == 0 && curve[K1][STEPS - 1] > curve[K1][0] / 2, "k1 in the loss constrains nothing");
    claim(fmin(same[K2], fmin(same[REWARD], same[WEIGHTED])) > 0.999, "three have that of KL(pi || ref)");
    claim(other[K3] > 0.999 && same[K3] < 0.999, "k3 has that of the other direction");
    claim(later[WEIGHTED] > 0.999 && later[K2] < 0.999, "with older samples only the weighted one has it");
    return lesson_failures > 0;
}
