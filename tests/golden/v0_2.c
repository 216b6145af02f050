/* v0_2.c - writes files with version 0.2 of ppo.h, or with version 0.1, which had no version number and no files of models
   yet, and what that version computed from them: see make_v0_2.py. It is compiled with the ppo.h of that version, and
   speaks its names. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include "line_env.h"

#ifdef PPO_VERSION
#define BOX_SETTINGS "desired_kl=0.01 gsde=yes gsde_steps=4 huber_delta=1 activation=elu layer_norm=yes"
#else
#define BOX_SETTINGS "gsde=yes gsde_steps=4 huber_delta=1 activation=relu"
#endif

static void must(ppo_status status) {
    if (status) fprintf(stderr, "%s\n", ppo_last_error()), exit(1);
}

/* Two iterations of eight steps, a checkpoint after each; a third one gives the figures of a resumed run. */
static void control(const char *name, ppo_space space, const char *settings) {
    ppo_env env = line_env(space);
    ppo_config config = ppo_config_default();
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    ppo_progress progress;
    char path[64];
    const float obs[2] = {0.3f, 1};
    ppo_action action;
    must(ppo_config_set_all(&config, "total_steps=96 num_envs=2 rollout_steps=16 minibatch_size=16 epochs=2 "
                                     "hidden=4 learning_rate_schedule=constant"));
    must(ppo_config_set_all(&config, settings));
    must(ppo_agent_create(&env, &config, &agent));
    must(ppo_trainer_create(&env, &config, agent, &trainer));
    for (int i = 0; i < 2; i++) must(ppo_trainer_iterate(trainer, NULL));
    snprintf(path, sizeof path, "%s.policy", name);
    must(ppo_agent_save(agent, path));
    snprintf(path, sizeof path, "%s.checkpoint", name);
    must(ppo_trainer_save(trainer, path));
    must(ppo_act(agent, obs, NULL, &action));
    printf("%s_action %.9g\n", name, action.box ? (double)action.box[0] : (double)action.discrete);
    must(ppo_trainer_iterate(trainer, &progress));
    printf("%s_loss %.9g\n", name, (double)progress.loss);
    printf("%s_value_loss %.9g\n", name, (double)progress.value_loss);
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
}

static const char text[] = "abba cab";

#ifdef PPO_VERSION
static ppo_status many_ones(const ppo_samples *samples, float *reward, void *user) {
    const ppo_tokens *t = &samples->tokens;
    (void)user;
    for (int s = 0; s < t->count; s++) {
        reward[s] = 0;
        for (int i = t->start[s] + t->prompt[s]; i < t->start[s + 1]; i++) reward[s] += t->token[i] == 1;
    }
    return PPO_OK;
}

static void language(void) {
    static const char *const specials[] = {"<eos>"};
    ppo_tokenizer *tokenizer = NULL;
    ppo_lm_config shape = ppo_lm_config_default();
    ppo_lm *lm = NULL;
    ppo_rlhf_config config = ppo_rlhf_config_default();
    ppo_rlhf *rlhf = NULL;
    ppo_rlhf_progress progress;
    ppo_tokens prompts = {0};
    must(ppo_tokenizer_characters(text, sizeof text - 1, specials, 1, &tokenizer));
    must(ppo_settings_set_all(
        ppo_lm_settings(), &shape,
        "context=8 width=8 layers=1 heads=2 kv_heads=1 norm=rms gated=yes head_norm=yes positions=rotary "
        "activation=silu qkv_bias=no proj_bias=no ffn_bias=no tied=no hidden=8"));
    shape.vocab = ppo_tokenizer_vocab(tokenizer);
    shape.eos = ppo_tokenizer_special(tokenizer, "<eos>");
    must(ppo_lm_create(&shape, &lm));
    must(ppo_lm_save_file(lm, tokenizer, "lm.model"));
    for (int s = 0; s < 4; s++)
        must(ppo_tokens_add_text(&prompts, tokenizer, -1, s % 2 ? "a" : "b", NULL, -1));
    must(ppo_settings_set_all(
        ppo_rlhf_settings(), &config,
        "prompts=4 slots=2 minibatch_size=2 epochs=1 max_new=4 kl_place=reward kl_target=2 kl_horizon=100 "
        "recompute=yes target_kl=0.05"));
    config.sampling.eos = shape.eos;
    must(ppo_rlhf_create(lm, NULL, NULL, &prompts, many_ones, NULL, &config, &rlhf));
    must(ppo_rlhf_iterate(rlhf, NULL));
    must(ppo_rlhf_save(rlhf, "lm.checkpoint"));
    must(ppo_rlhf_iterate(rlhf, &progress));
    printf("lm_reward %.9g\n", (double)progress.reward);
    printf("lm_kl %.9g\n", (double)progress.kl);
    printf("lm_value_loss %.9g\n", (double)progress.value_loss);
    ppo_rlhf_free(rlhf);
    ppo_tokens_free(&prompts);
    ppo_lm_free(lm);
    ppo_tokenizer_free(tokenizer);
}

#else
static void language(void) {
    static const char *const specials[] = {"<eos>"};
    ppo_tokenizer *tokenizer = NULL;
    must(ppo_tokenizer_characters(text, sizeof text - 1, specials, 1, &tokenizer));
    must(ppo_tokenizer_save(tokenizer, "tokenizer"));
    ppo_tokenizer_free(tokenizer);
}
#endif

int main(void) {
    must(ppo_use_kernels("plain"));
    control("discrete", ppo_discrete(2),
            "objective=kl-penalty adaptive_kl_target=0.01 normalize_obs=yes normalize_reward=yes recurrent=4 "
            "sequence_steps=8 value_clip=0.2");
    control("box", ppo_box(1, -1, 1), BOX_SETTINGS);
    control("reinforce", ppo_discrete(2),
            "baseline=no gae_lambda=1 epochs=1 minibatch_size=0 objective=unclipped");
    language();
    return 0;
}
