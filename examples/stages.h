/* stages.h - the stages of rlhf.c: each reads the files it needs, trains or samples, and leaves what it made. */
#ifndef STAGES_H
#define STAGES_H

#include "lab.h"

enum { CORPUS = 20000, PAIRS = 10000, PROMPTS = 256, HELD_OUT = 1024 };

/* Settings of ppo, where they are not the library's. The rate falls to 0, or the policy would continue to wander,
   which costs KL; and the coefficient adapts to hold the KL, which is what best-of-n is compared with. */
static const char ppo_defaults[] =
    "iterations=60 prompts=256 minibatch_size=64 epochs=2 learning_rate=6e-4 learning_rate_schedule=linear "
    "kl_coef=0.35 penalty_target_kl=2.25 kl_horizon=1500 missing_eos_penalty=1";

typedef struct run {
    lab lab;
    const char *dir, *device, *fit; /* fit: settings of fine-tuning, by name */
    int json, quiet, best_of, threads;
    ppo_rlhf_config ppo;
    ppo_lm *sft, *reward, *policy; /* policy: of the stage */
    ppo_reward_model *proxy;       /* the reward model, normalized */
    ppo_tokens prompts, held_out;  /* to train with, and to measure with */
    ppo_tokens chosen, rejected;
    worth worth;
    float most_kl; /* of an iteration of PPO */
} run;

static void forget_reward(run *r) {
    ppo_reward_model_free(r->proxy);
    ppo_lm_free(r->reward);
    r->proxy = NULL;
    r->reward = NULL;
}

static void forget_all(run *r) {
    ppo_tokens *const tokens[] = {&r->prompts, &r->held_out, &r->chosen, &r->rejected};
    for (int k = 0; k < 4; k++) ppo_tokens_free(tokens[k]);
    forget_reward(r);
    ppo_lm_free(r->policy);
    ppo_lm_free(r->sft);
    ppo_tokenizer_free(r->lab.tokenizer);
    r->policy = r->sft = NULL;
    r->lab.tokenizer = NULL;
}

static const char *path_to(const run *r, const char *name, char path[512]) {
    snprintf(path, 512, "%s/%s/%s.safetensors", r->dir, r->lab.task->name, name);
    return path;
}

/* A model's file holds its tokenizer, too, and which sft model it comes from: that of some seed. */
static ppo_status save(const run *r, const ppo_lm *model, const char *name) {
    char path[512], seed[32];
    ppo_file *file = NULL;
    if (ppo_group_rank()) return PPO_OK;
    ppo_status status = ppo_file_create(&file);
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)r->lab.sft_seed);
    if (!status) status = ppo_lm_put(model, file);
    if (!status) status = ppo_tokenizer_put(r->lab.tokenizer, file);
    if (!status) status = ppo_file_set_text(file, "sft_seed", seed);
    if (!status) status = ppo_file_write(file, path_to(r, name, path));
    ppo_file_free(file);
    return status;
}

static ppo_status load(run *r, const char *name, ppo_lm **model) {
    char path[512];
    ppo_file *file = NULL;
    ppo_status status = *model ? PPO_OK : ppo_file_read(path_to(r, name, path), &file);
    if (!status && file) {
        const char *text = ppo_file_text(file, "sft_seed");
        uint64_t seed = text ? strtoull(text, NULL, 10) : 0;
        if (!text) status = ppo_fail(PPO_ERROR_FILE, "%s is not of this program", path);
        else if (!r->lab.tokenizer)
            r->lab.sft_seed = seed, status = ppo_tokenizer_get(file, &r->lab.tokenizer);
        else if (seed != r->lab.sft_seed)
            status = ppo_fail(PPO_ERROR_FILE, "%s comes from another sft model: run its stage again", path);
        if (!status) status = ppo_lm_get(file, model);
    }
    ppo_file_free(file);
    r->lab.start = ppo_tokenizer_special(r->lab.tokenizer, "<start>");
    r->lab.end = ppo_tokenizer_special(r->lab.tokenizer, "<end>");
    return status;
}

static int on_step(const ppo_fit_progress *p, void *user) {
    if (((run *)user)->quiet || (p->step % 50 && p->step != p->steps)) return 0;
    fprintf(stderr, "  step %4lld/%lld  loss %.4f", (long long)p->step, (long long)p->steps, (double)p->loss);
    if (!isnan(p->accuracy)) fprintf(stderr, "  accuracy %.2f", (double)p->accuracy);
    fprintf(stderr, "  %.0f tokens/s\n", p->tokens_per_second);
    return 0;
}

/* The library's settings, those of the stage, and those of the command line, which have been checked. */
static ppo_fit_config fit(run *r, const char *settings) {
    ppo_fit_config config = ppo_fit_config_default();
    ppo_settings_set_all(ppo_fit_settings(), &config, settings);
    config.seed = r->lab.seed;
    ppo_settings_set_all(ppo_fit_settings(), &config, r->fit);
    config.callback = on_step;
    config.callback_user = r;
    return config;
}

/* Supervised: to write lines like those of the task. */
static ppo_status stage_sft(run *r) {
    ppo_fit_config config = fit(r, "epochs=2");
    forget_all(r);
    r->lab.sft_seed = r->lab.seed;
    ppo_status status = learn_to_write(&r->lab, CORPUS, &config, &r->sft);
    return status ? status : save(r, r->sft, "sft");
}

static ppo_status need_prompts(run *r) {
    ppo_status status = load(r, "sft", &r->sft);
    if (!status && !r->prompts.count) status = add_lines(&r->lab, PROMPTS, 2, &r->prompts);
    if (!status && !r->held_out.count) status = add_lines(&r->lab, HELD_OUT, 4, &r->held_out);
    return status;
}

static ppo_status need_comparisons(run *r) {
    ppo_tokens lines = {0};
    ppo_status status = need_prompts(r);
    if (!status && !r->chosen.count) status = add_lines(&r->lab, PAIRS, 3, &lines);
    if (!status && !r->chosen.count) status = compare(&r->lab, r->sft, &lines, 3, &r->chosen, &r->rejected);
    ppo_tokens_free(&lines);
    return status;
}

static ppo_status need_proxy(run *r) {
    ppo_status status = need_prompts(r);
    if (!status) status = load(r, "reward", &r->reward);
    return status || r->proxy
               ? status
               : make_proxy(&r->lab, r->sft, &r->prompts, &r->reward, 1, PPO_ENSEMBLE_MEAN, &r->proxy);
}

/* The reward model: the sft model with a score, which learns from comparisons. */
static ppo_status stage_reward(run *r) {
    ppo_fit_config config = fit(r, "epochs=2");
    ppo_status status = need_comparisons(r);
    forget_reward(r);
    if (!status) status = ppo_lm_copy(r->sft, 1, &r->reward);
    if (!status) status = ppo_fit_reward(r->reward, &r->chosen, &r->rejected, &config);
    if (!status) status = save(r, r->reward, "reward");
    return status ? status : need_proxy(r);
}

static ppo_status stage_ppo(run *r) {
    ppo_rlhf *rlhf = NULL;
    ppo_rlhf_progress p;
    ppo_rlhf_config config = r->ppo;
    r->most_kl = 0;
    config.sampling.eos = r->lab.end;
    config.slots = r->lab.slots;
    ppo_status status = ppo_lm_copy(r->sft, 0, &r->policy);
    if (!status)
        status = ppo_rlhf_create(r->policy, r->sft, NULL, &r->prompts, ppo_reward_by_model, r->proxy, &config,
                                 &rlhf);
    for (int i = 0; i < config.iterations && !status; i++) {
        status = ppo_rlhf_iterate(rlhf, &p);
        if (!status && p.kl > r->most_kl) r->most_kl = p.kl;
        if (status || r->quiet || (p.iteration % 10 && p.iteration != config.iterations)) continue;
        fprintf(
            stderr,
            "  iteration %3lld  reward %6.3f  kl %6.3f%s  entropy %.3f  length %4.1f  %.0f tokens/s  %s\n",
            (long long)p.iteration, (double)p.reward, (double)p.kl, p.kl < 0 ? " (an estimate: near 0)" : "",
            (double)p.entropy, (double)p.mean_length, p.tokens_per_second, p.warning);
    }
    ppo_rlhf_free(rlhf);
    return status ? status : save(r, r->policy, "ppo");
}

static ppo_status stage_dpo(run *r) {
    /* with a higher rate, or less beta, words fall apart: DPO never samples, so it does not notice */
    ppo_fit_config config = fit(r, "epochs=2 learning_rate=1e-4 beta=0.5");
    ppo_status status = need_comparisons(r);
    if (!status) status = ppo_lm_copy(r->sft, 0, &r->policy);
    if (!status) status = ppo_fit_dpo(r->policy, r->sft, &r->chosen, &r->rejected, &config);
    return status ? status : save(r, r->policy, "dpo");
}

/* Filtered fine-tuning (ReST, Gulcehre 2023): a model learns from the best of its own samples, again and again. */
static ppo_status stage_rest(run *r) {
    ppo_status status = ppo_lm_copy(r->sft, 0, &r->policy);
    for (int round = 0; round < 3 && !status; round++) {
        ppo_tokens best = {0};
        ppo_generator *generator = NULL;
        ppo_sampling how = sampling(&r->lab, 20 + (uint64_t)round);
        ppo_fit_config config = fit(r, "epochs=2 learning_rate=3e-4");
        status = ppo_generator_create(r->policy, r->lab.slots, &generator);
        if (!status)
            status =
                ppo_best_of_n(generator, &r->prompts, 4, &how, ppo_reward_by_model, r->proxy, &best, NULL);
        if (!status) status = ppo_fit_sft(r->policy, &best, &config);
        ppo_generator_free(generator);
        ppo_tokens_free(&best);
    }
    return status ? status : save(r, r->policy, "rest");
}

/* The best of n samples is a policy as well, though nothing is trained: KL at most log n - (n - 1) / n. */
static ppo_status stage_bon(run *r) {
    ppo_generator *generator = NULL;
    ppo_tokens best = {0};
    ppo_sampling how = sampling(&r->lab, 7);
    ppo_lm_evaluation e = {0};
    float *score = (float *)malloc((size_t)r->held_out.count * sizeof(float));
    int n = r->held_out.count;
    r->worth.proxy_reward = 0;
    ppo_status status = score ? ppo_generator_create(r->sft, r->lab.slots, &generator) : PPO_ERROR_MEMORY;
    if (!status)
        status = ppo_best_of_n(generator, &r->held_out, r->best_of, &how, ppo_reward_by_model, r->proxy,
                               &best, score);
    for (int s = 0; s < n && !status; s++) r->worth.proxy_reward += score[s] / (float)n;
    if (!status) {
        ppo_samples samples = {best, NULL, NULL};
        status = true_reward(&samples, score, &r->lab);
    }
    for (int s = 0; s < n && !status; s++) e.reward += score[s] / (float)n;
    e.mean_length = (float)ppo_response_row(&best, n) / (float)n;
    e.kl = ppo_best_of_n_kl(r->best_of);
    e.entropy = e.win_rate = NAN;
    r->worth.e = e;
    free(score);
    ppo_tokens_free(&best);
    ppo_generator_free(generator);
    return status;
}

static ppo_status stage_sample(run *r) { return load(r, "ppo", &r->policy); }

/* Six lines that a model writes, each with its true reward. */
static ppo_status show_samples(run *r, const ppo_lm *model) {
    ppo_generator *generator = NULL;
    ppo_samples samples;
    ppo_sampling how = sampling(&r->lab, 9);
    float *reward = (float *)malloc((size_t)r->held_out.count * sizeof(float));
    ppo_status status = reward ? ppo_generator_create(model, r->lab.slots, &generator) : PPO_ERROR_MEMORY;
    if (!status) status = ppo_generate(generator, &r->held_out, &how, &samples);
    if (!status) status = true_reward(&samples, reward, &r->lab);
    if (!status) ppo_print_samples(stdout, r->lab.tokenizer, &samples, reward, 6);
    fflush(stdout);
    free(reward);
    ppo_generator_free(generator);
    return status;
}

#endif
