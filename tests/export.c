/* For export.sh: trains a small agent of each kind into the folder argv[1]. NAME.h is the policy as ppo_export_c()
   writes it, NAME.flags says with which macros export_compare.c is compiled for it, and NAME.txt is what it must
   answer: per line 1 where an episode begins, an observation, the outputs, the action, uniform numbers and the action
   that ppo_act() samples by them; of choices also a mask, and under it the action and the one sampled. */
#define PPO_IMPLEMENTATION
#include "../ppo.h"
#include "../examples/companions/ppo_conv.h"
#include "../examples/companions/ppo_gru.h"
#include "../examples/companions/ppo_export.h"
#include "random_policies.h"

enum { LINES = 400, OUTPUTS = 16 };

static const struct {
    const char *name, *space, *settings;
    float place, spread;
    int actor_obs; /* 0: the actor sees all */
    int int8;      /* 1: weights of 8 bits, 2: and by random observations */
} agents[] = {
    {"discrete", "discrete 4", "", 0, 1},
    {"one_action", "discrete 1", "hidden=3", 0, 1},
    {"relu_shared", "discrete 3", "activation=relu shared_trunk=yes hidden=9,5", 0, 1},
    {"identity_deep", "discrete 2", "activation=identity hidden=4,3,2,5", 0, 1},
    {"linear", "discrete 5", "hidden=none", 0, 1},
    {"normalized", "discrete 4", "normalize_obs=yes clip_obs=1.5", 2, 5},
    {"far_away", "discrete 4", "normalize_obs=yes", 1000, 1},
    {"multi_discrete", "multi-discrete 3,2,5", "", 0, 1},
    {"multi_binary", "multi-binary 6", "shared_trunk=yes", 0, 1},
    {"clipped", "box 2 -0.3 0.1", "scale_actions=no log_std_init=-1 log_std_max=-1", 0, 1},
    {"scaled", "box 2 5 6", "normalize_obs=yes", 2, 5},
    {"int8_scaled", "box 2 0 1e-3", "", 0, 1, 0, 1},
    {"squashed", "box 3 -2 0.7", "squash=yes normalize_obs=yes", -3, 2},
    {"unbounded", "box 2 -inf inf", "activation=relu", 0, 1},
    {"half_bounded", "box 2 0.1 inf", "gsde=yes hidden=none log_std_max=0", 0, 1},
    {"convolutions", "box 2 -1 1", "conv=3x2x1,5x1x1,2x1x1 hidden=none normalize_obs=yes", 1, 2},
    {"max_pooling", "discrete 4", "conv=5x2x1,0x2x2 activation=relu", 0, 1},
    {"recurrent_convolution", "discrete 3", "conv=5x1x1,6x3x2 activation=relu recurrent=4 shared_trunk=yes",
     0, 1},
    {"recurrent", "discrete 3", "recurrent=6", 0, 1},
    {"recurrent_shared", "multi-discrete 4,3", "recurrent=4 shared_trunk=yes activation=relu", 0, 1},
    {"recurrent_alone", "discrete 3", "recurrent=5 hidden=none normalize_obs=yes", 1, 3},
    {"recurrent_box", "box 2 -1 1", "recurrent=7 normalize_obs=yes squash=yes gsde=yes", 0, 9},
    {"gelu_by_tanh", "box 1 -9 9", "scale_actions=no activation=gelu", 0, 2},
    {"gelu_by_erf", "box 1 -9 9", "scale_actions=no activation=gelu_erf", 0, 2},
    {"silu", "discrete 3", "activation=silu shared_trunk=yes", 0, 2},
    {"elu", "box 2 -9 9", "scale_actions=no activation=elu conv=3x2x1", 0, 2},
    {"layer_norm", "box 2 -9 9", "scale_actions=no activation=elu layer_norm=yes", 3, 9},
    {"layer_norm_shared", "discrete 5", "layer_norm=yes shared_trunk=yes recurrent=4", 0, 0.01f},
    {"asymmetric", "discrete 4", "normalize_obs=yes", 2, 5, 7},
    {"asymmetric_convolution", "discrete 4", "conv=3x2x1 recurrent=3", 0, 1, HEIGHT *WIDTH},
    {"numbers_beside_a_picture", "box 2 -1 1", "conv=3x2x1,5x1x1 normalize_obs=yes shared_trunk=yes", 1, 2},
    {"numbers_beside_pools", "discrete 4", "conv=2x1x1,0x2x1,0x1x1 activation=relu recurrent=4", 0, 1,
     OBS - 3},
    {"int8_numbers_beside", "discrete 4", "conv=3x2x1,5x1x1 hidden=none activation=gelu_erf", 0, 1, OBS - 3,
     1},
    {"int8_layer_norm", "box 3 -2 2", "normalize_obs=yes layer_norm=yes squash=yes", 2, 5, 7, 1},
    {"int8_convolution", "discrete 4", "conv=3x2x1,5x1x1 recurrent=6 shared_trunk=yes activation=relu", 0, 1,
     0, 1},
    {"int8_without_env", "multi-discrete 3,2,5", "normalize_obs=yes", 2, 5, 0, 2},
    {"int8_gsde", "box 2 -1 1", "gsde=yes", 0, 1, 0, 1},
    {"int8_relu_of_bytes", "discrete 4", "activation=relu", 128, 40, 0, 2},
    {"int8_gelu", "box 2 -9 9", "scale_actions=no activation=gelu", 0, 2, 0, 1},
    {"int8_elu_pooling", "box 1 -9 9", "scale_actions=no conv=5x2x1,0x2x2 activation=elu", 0, 2, 0, 1},
    {"int8_beside_a_pool", "discrete 3", "conv=0x1x1,4x2x1,0x1x1 normalize_obs=yes activation=silu", 3, 4,
     OBS - 3, 1},
    {"int8_core_alone", "discrete 3", "recurrent=5 hidden=none", 1, 3, 0, 1},
    {"a_name_of_60_characters_which_is_as_long_as_a_name_is_let_be", "box 1 -1 1", "hidden=none", 0, 1},
};

/* An environment's name goes into a comment. */
static const char strange[] = "*/ an end, a \\\n line, ?\?/ \" and \303\251 /*";

static FILE *create(const char *folder, const char *name, const char *end) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s.%s", folder, name, end);
    FILE *file = fopen(path, "w");
    if (!file) perror(path), exit(1);
    return file;
}

/* The outputs for an observation, from the memory that the agent has now. */
static const float *outputs(ppo_agent *agent, ppo_tape *tape, const float *obs) {
    ppo_inputs inputs = {0};
    float view[OBS];
    memcpy(view, obs, sizeof view);
    if (agent->obs_norm.size) ppo_normalize(&agent->obs_norm, obs, 1, agent->clip_obs, view);
    inputs.rows = 1;
    inputs.obs = view;
    inputs.sequences.state = agent->state;
    ppo_tape_reset(tape);
    return ppo_actor_critic_forward(tape, &agent->model, &inputs, PPO_POLICY).policy->data;
}

static void write_action(FILE *out, const ppo_action *action, int n) {
    for (int j = 0; j < n; j++)
        fprintf(out, " %a", action->box ? (double)action->box[j] : (double)action->choices[j]);
}

/* An action by the memory that the agent has now, and keeps. */
static void write_try(FILE *out, ppo_agent *agent, const float *obs, const unsigned char *mask,
                      const ppo_rng *rng, int n) {
    float state[16];
    ppo_rng copy;
    ppo_action action;
    if (rng) copy = *rng;
    memcpy(state, agent->state, (size_t)agent->model.core.width * sizeof *state);
    check(ppo_act_masked(agent, obs, mask, rng ? &copy : NULL, &action));
    memcpy(agent->state, state, (size_t)agent->model.core.width * sizeof *state);
    write_action(out, &action, n);
}

/* At least one option of each choice is legal. */
static void draw_mask(const ppo_space *space, ppo_rng *rng, unsigned char *mask) {
    int heads;
    const int *sizes = ppo__space_heads(space, &heads);
    for (int h = 0; h < heads; mask += sizes[h++]) {
        for (int j = 0; j < sizes[h]; j++) mask[j] = (unsigned char)ppo_rng_below(rng, 2);
        mask[ppo_rng_below(rng, sizes[h])] = 1;
    }
}

static void write_answers(FILE *out, ppo_agent *agent, int n_outputs, int n_numbers) {
    const int n_uniforms = agent->model.log_std ? 2 * n_numbers : n_numbers;
    unsigned char mask[OUTPUTS];
    ppo_tape *tape = NULL;
    ppo_rng rng = ppo_rng_stream(3, PPO_STREAM_USER, 0);
    check(ppo_tape_create(&tape));
    for (int line = 0; line < LINES; line++) {
        float obs[OBS];
        ppo_action action;
        int begins = line % 40 == 0;
        noise(&rng, obs);
        if (line % 10 == 9) obs[line % OBS] += 5 * spread; /* something rare */
        if (begins) ppo_agent_reset(agent);
        fprintf(out, "%d", begins);
        for (int j = 0; j < agent->model.actor_obs; j++) fprintf(out, " %a", (double)obs[j]);
        const float *y = outputs(agent, tape, obs);
        for (int j = 0; j < n_outputs; j++) fprintf(out, " %a", (double)y[j]);
        write_try(out, agent, obs, NULL, NULL, n_numbers);
        const ppo_rng drawn = rng;
        for (int j = 0; j < n_uniforms; j++) fprintf(out, " %a", (double)ppo_rng_uniform(&rng));
        write_try(out, agent, obs, NULL, &drawn, n_numbers);
        if (!agent->model.log_std) {
            draw_mask(&agent->model.action_space, &rng, mask);
            for (int j = 0; j < n_outputs; j++) fprintf(out, " %d", mask[j]);
            write_try(out, agent, obs, mask, NULL, n_numbers);
            write_try(out, agent, obs, mask, &drawn, n_numbers);
        }
        check(ppo_act(agent, obs, NULL, &action)); /* goes on to the next state */
        fprintf(out, "\n");
    }
    ppo_tape_free(tape);
}

static void write_agent(const char *folder, int i) {
    char path[512];
    ppo_env env = {0};
    env.name = agents[i].name;
    env.obs_size = OBS;
    env.actor_obs = agents[i].actor_obs;
    env.shape[0] = CHANNELS, env.shape[1] = HEIGHT, env.shape[2] = WIDTH;
    if (env.actor_obs) env.shape[0] = 1; /* channel of what the actor sees, if that is a picture */
    if (strstr(agents[i].name, "beside")) env.shape[0] = 1; /* and numbers after it */
    else if (env.actor_obs % (HEIGHT * WIDTH)) memset(env.shape, 0, sizeof env.shape);
    env.action_space = ppo__parse_space(agents[i].space);
    env.state_size = sizeof(float);
    env.max_steps = 20;
    env.reset = noise_reset;
    env.step = noise_step;
    place = agents[i].place;
    spread = agents[i].spread;
    ppo_agent *agent = train(&env, agents[i].settings, 0.5f, i);
    const char *name = agents[i].name;
    int kind = env.action_space.kind, n_outputs = ppo__space_outputs(&env.action_space);
    int n_numbers = ppo__space_width(&env.action_space), heads;
    const int *sizes = ppo__space_heads(&env.action_space, &heads);
    FILE *flags = create(folder, name, "flags"), *answers = create(folder, name, "txt");
    const char *kinds[] = {"", "DISCRETE", "BOX", "MULTI", "MULTI"};
    fprintf(flags, "-DNAME=%s -D%s -DOUTPUTS=%d -DNUMBERS=%d", name, kinds[kind], n_outputs, n_numbers);
    const int int8 = agents[i].int8;
    if (int8) fprintf(flags, " -DTOLERANCE=1e-2f");
    if (agent->model.core.width) fprintf(flags, " -DWIDTH=%d", agent->model.core.width);
    if (kind != PPO_BOX) {
        fprintf(flags, " -DSIZES=");
        for (int h = 0; h < heads; h++) fprintf(flags, h ? ",%d" : "%d", sizes[h]);
    }
    fclose(flags);
    const ppo__rounding by = {int8 == 1 ? &env : NULL, NULL, 0};
    ppo__export small = {agent, name, NULL, NULL, NULL, 0, NULL, 0, 0, NULL};
    if (int8) check(ppo__int8_agent(&small, &by)); /* what whole numbers must compute */
    write_answers(answers, int8 ? small.rounded : agent, n_outputs, n_numbers);
    ppo_tape_free(small.tape);
    ppo_agent_free(small.rounded);
    fclose(answers);
    snprintf(path, sizeof path, "%s/%s.h", folder, name);
    check(int8 ? ppo_export_c_int8(agent, int8 == 1 ? &env : NULL, name, path)
               : ppo_export_c(agent, name, path));
    snprintf(path, sizeof path, "%s/strange.h", folder);
    snprintf(agent->environment, sizeof agent->environment, "%s", strange);
    if (i == 0) check(ppo_export_c(agent, "strange", path));
    ppo_agent_free(agent);
}

/* What must be refused: returns 1, and says so, if it was not. */
static int refuses(const ppo_agent *agent, const char *name, ppo_status status, const char *folder,
                   const char *word) {
    char path[512];
    snprintf(path, sizeof path, "%s/refused.h", folder);
    ppo_status is = ppo_export_c(agent, name, path), small = ppo_export_c_int8(agent, NULL, name, path);
    FILE *left = fopen(path, "r");
    if (left) fclose(left);
    if (is == status && small == status && !left && strstr(ppo_last_error(), word)) return 0;
    fprintf(stderr, "\"%s\": status %d, \"%s\"%s\n", name, is, ppo_last_error(),
            left ? ", and there is a file" : "");
    return 1;
}

static int refusals(const char *folder) {
    static const char *const names[] = {
        "",         "_",   "__a", "1a",
        "a b",      "a-b", "a.b", "a\n",
        "\303\251", "a\"", "a+",  "(a)",
        " a",       "a;",  "a/b", "a_name_that_is_longer_than_60_characters_and_therefore_is_refused_"};
    ppo_env env = {0};
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    int wrong = 0;
    env.obs_size = OBS;
    env.action_space = ppo_discrete(2);
    env.reset = noise_reset;
    env.step = noise_step;
    env.state_size = sizeof(float);
    env.max_steps = 20;
    spread = 1;
    cfg.normalize_obs = 1;
    check(ppo_agent_create(&env, &cfg, &agent));
    for (int i = 0; i < COUNT(names); i++)
        wrong |= refuses(agent, names[i], PPO_ERROR_ARGUMENT, folder, "name");
    agent->model.params->tensors[0]->data[1] = NAN; /* C has no constant for that */
    wrong |= refuses(agent, "a", PPO_ERROR_NUMERIC, folder, "not finite");
    agent->model.params->tensors[0]->data[1] = 0;
    agent->obs_norm.mean[2] = 1e300;
    wrong |= refuses(agent, "a", PPO_ERROR_NUMERIC, folder, "not finite");
    agent->obs_norm.mean[2] = 0;
    memset(agent->model.params->data, 0, agent->model.params->count * sizeof(float)); /* no scale to find */
    char path[512];
    snprintf(path, sizeof path, "%s/zeros.h", folder);
    check(ppo_export_c_int8(agent, &env, "zeros", path));
    env.obs_size = OBS - 1;
    wrong |= ppo_export_c_int8(agent, &env, "zeros", path) != PPO_ERROR_ARGUMENT;
    ppo_agent_free(agent);
    return wrong;
}

int main(int argc, char **argv) {
    if (argc > 2) return refusals(argv[1]);
    for (int i = 0; i < COUNT(agents) && argc > 1; i++) {
        write_agent(argv[1], i);
        printf("%s\n", agents[i].name);
    }
    return argc < 2;
}
