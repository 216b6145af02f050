/* runaway.h - a stage of rlhf.c that shows how PPO on tokens runs away, and what holds it: the same training four
   times at ten times the default learning rate, with and without two of the library's defaults. One is target_kl: the
   clip alone stops no step that is too long, for it only takes the gradient away from ratios that have left its range,
   and a few tokens with a giant ratio are enough to change what is sampled next. The other is the critic that is a
   model of its own: learning values in the policy's layers moves the policy at random.

   You will see how far the first iteration leads (approx_kl per token), the highest KL to the first model on the way,
   the KL and the true reward at the end; and build/runaway.svg, the KL by iteration. The settings are its own. */
#ifndef RUNAWAY_H
#define RUNAWAY_H

#include "companions/ppo_report.h"
#include "stages.h"

enum { VARIANTS = 4, MOST_ITERATIONS = 200 };

static const struct variant {
    const char *name, *settings;
    int shared; /* 1: the critic is the policy with a score */
} variants[VARIANTS] = {
    {"critic in the policy, no target_kl", "target_kl=0", 1},
    {"critic of its own, no target_kl", "target_kl=0", 0},
    {"critic in the policy, target_kl", "", 1},
    {"critic of its own, target_kl", "", 0},
};

typedef struct history {
    float iteration[MOST_ITERATIONS], kl[MOST_ITERATIONS];
    int n;
    float first_step, highest; /* approx_kl of the first iteration; the highest KL */
} history;

static ppo_status train_variant(run *r, const struct variant *v, history *h) {
    ppo_rlhf *rlhf = NULL;
    ppo_rlhf_progress p;
    ppo_rlhf_config config = ppo_rlhf_config_default();
    ppo_status status = ppo_settings_set_all(ppo_rlhf_settings(), &config,
                                             "iterations=40 prompts=256 minibatch_size=64 epochs=4 "
                                             "learning_rate=3e-3 learning_rate_schedule=linear "
                                             "kl_coef=0.2 missing_eos_penalty=1 normalize_rewards=no");
    if (!status) status = ppo_settings_set_all(ppo_rlhf_settings(), &config, v->settings);
    config.seed = r->lab.seed;
    config.sampling.eos = r->lab.end;
    config.slots = r->lab.slots;
    memset(h, 0, sizeof *h);
    if (!status) status = ppo_lm_copy(r->sft, v->shared, &r->policy);
    if (!status)
        status = ppo_rlhf_create(r->policy, r->sft, v->shared ? r->policy : NULL, &r->prompts,
                                 ppo_reward_by_model, r->proxy, &config, &rlhf);
    for (int i = 0; i < config.iterations && !status; i++) {
        status = ppo_rlhf_iterate(rlhf, &p);
        if (status) break;
        h->iteration[h->n] = (float)p.iteration;
        h->kl[h->n++] = p.kl;
        if (p.kl > h->highest) h->highest = p.kl;
        if (i == 0) h->first_step = p.approx_kl;
    }
    ppo_rlhf_free(rlhf);
    return status ? status : evaluate(&r->lab, r->policy, r->sft, r->proxy, &r->held_out, &r->worth);
}

static ppo_status stage_runaway(run *r) {
    static history h[VARIANTS];
    ppo_curve curves[VARIANTS];
    ppo_status status = PPO_OK;
    for (int k = 0; k < VARIANTS && !status; k++) {
        const ppo_curve curve = {variants[k].name, h[k].iteration, h[k].kl, MOST_ITERATIONS};
        curves[k] = curve;
        ppo_lm_free(r->policy);
        r->policy = NULL;
        status = train_variant(r, &variants[k], &h[k]);
        curves[k].n = h[k].n;
        if (status || r->json) continue;
        printf("  %-35s  first iteration %.3f  highest KL %5.2f  at the end %.2f  true reward %.2f\n",
               variants[k].name, (double)h[k].first_step, (double)h[k].highest, (double)r->worth.e.kl,
               (double)r->worth.e.reward);
        fflush(stdout);
    }
    return status ? status
                  : ppo_plot_svg("build/runaway.svg", "KL to the first model", "iteration",
                                 "nats per sentence", curves, VARIANTS);
}

#endif
