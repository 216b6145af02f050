/* For onnx_compare.py: trains a small agent of each kind into the folder argv[1]. NAME.onnx is the policy as ppo_export_onnx()
   writes it, NAME.unity.onnx the same with the names of ML-Agents. NAME.txt has the sizes, as "key value" lines, and
   NAME.f32 what the policy must answer: arrays of floats, one after another,

       obs [rows][obs]  mask [rows][options]  policy [rows][outputs]  log_std [rows][outputs]  value [rows]
       action [rows][numbers]  state [rows][width], before the step  next [rows][width], after it

   A recurrent policy's rows are the steps of sequences side by side: step 0 of all of them, then step 1, ... */
#define PPO_IMPLEMENTATION
#include "../ppo.h"
#include "../examples/companions/ppo_conv.h"
#include "../examples/companions/ppo_gru.h"
#include "../examples/companions/ppo_onnx.h"
#include "random_policies.h"

enum { ROWS = 10000, STEPS = 50 };

static const struct {
    const char *name, *space, *settings;
    float place, spread;
    int actor_obs; /* 0: the actor sees all */
    int mask, value;
} agents[] = {
    {"discrete", "discrete 4", "", 0, 1, 0, 0, 0},
    {"discrete_value", "discrete 4", "", 0, 1, 0, 0, 1},
    {"one_action", "discrete 1", "hidden=3", 0, 1, 0, 0, 1},
    {"masked", "discrete 6", "activation=relu", 0, 1, 0, 1, 1},
    {"masked_choices", "multi-discrete 3,1,5", "normalize_obs=yes", 2, 5, 0, 1, 0},
    {"masked_recurrent", "multi-binary 3", "recurrent=5", 0, 1, 0, 1, 1},
    {"linear", "discrete 5", "hidden=none", 0, 1, 0, 0, 1},
    {"identity_deep", "discrete 2", "activation=identity hidden=4,3,2,5", 0, 1, 0, 0, 0},
    {"relu_shared", "discrete 3", "activation=relu shared_trunk=yes hidden=9,5", 0, 1, 0, 0, 1},
    {"normalized", "discrete 4", "normalize_obs=yes clip_obs=1.5", 2, 5, 0, 0, 1},
    {"far_away", "discrete 4", "normalize_obs=yes", 1000, 1, 0, 0, 0},
    {"multi_discrete", "multi-discrete 3,2,5", "", 0, 1, 0, 0, 1},
    {"multi_binary", "multi-binary 6", "shared_trunk=yes", 0, 1, 0, 0, 0},
    {"clipped", "box 2 -0.3 0.1", "scale_actions=no log_std_init=-1 log_std_max=-1", 0, 1, 0, 0, 1},
    {"scaled", "box 2 5 6", "normalize_obs=yes", 2, 5, 0, 0, 0},
    {"squashed", "box 3 -2 0.7", "squash=yes normalize_obs=yes", -3, 2, 0, 0, 1},
    {"unbounded", "box 2 -inf inf", "activation=relu", 0, 1, 0, 0, 0},
    {"half_bounded_gsde", "box 2 0.1 inf", "gsde=yes hidden=none log_std_max=0", 0, 1, 0, 0, 0},
    {"squashed_gsde", "box 2 -1 1", "gsde=yes squash=yes log_std_init=-2", 0, 1, 0, 0, 1},
    {"convolutions", "box 2 -1 1", "conv=3x2x1,5x1x1,2x1x1 hidden=none normalize_obs=yes", 1, 2, 0, 0, 1},
    {"max_pooling", "discrete 4", "conv=5x2x1,0x2x2 activation=relu", 0, 1, 0, 0, 1},
    {"strides", "discrete 4", "conv=6x3x2 activation=elu", 0, 1, 0, 1, 0},
    {"beside_a_picture", "box 2 -1 1", "conv=3x2x1,5x1x1 normalize_obs=yes shared_trunk=yes", 1, 2, 0, 0, 1},
    {"beside_pools", "discrete 4", "conv=3x1x1,0x2x1,0x1x1 activation=relu recurrent=4", 0, 1, OBS - 3, 0, 1},
    {"recurrent", "discrete 3", "recurrent=6", 0, 1, 0, 0, 1},
    {"recurrent_shared", "multi-discrete 4,3", "recurrent=4 shared_trunk=yes activation=relu", 0, 1, 0, 0, 0},
    {"recurrent_alone", "discrete 3", "recurrent=1 hidden=none normalize_obs=yes", 1, 3, 0, 0, 1},
    {"recurrent_box", "box 2 -1 1", "recurrent=7 normalize_obs=yes squash=yes gsde=yes", 0, 9, 0, 0, 1},
    {"recurrent_convolution", "discrete 3", "conv=5x1x1,6x3x2 activation=relu recurrent=4 shared_trunk=yes",
     0, 1, 0, 0, 1},
    {"gelu_by_tanh", "box 1 -9 9", "scale_actions=no activation=gelu", 0, 2, 0, 0, 1},
    {"gelu_by_erf", "box 1 -9 9", "scale_actions=no activation=gelu_erf", 0, 2, 0, 0, 1},
    {"silu", "discrete 3", "activation=silu shared_trunk=yes", 0, 2, 0, 0, 1},
    {"elu", "box 2 -9 9", "scale_actions=no activation=elu", 0, 2, 0, 0, 1},
    {"layer_norm", "box 2 -9 9", "scale_actions=no activation=elu layer_norm=yes", 3, 9, 0, 0, 1},
    {"layer_norm_shared", "discrete 5", "layer_norm=yes shared_trunk=yes recurrent=4", 0, 0.01f, 0, 0, 1},
    {"asymmetric", "discrete 4", "normalize_obs=yes", 2, 5, 7, 0, 1},
    {"asymmetric_without_value", "discrete 4", "normalize_obs=yes", 2, 5, 7, 0, 0},
    {"wide", "discrete 4", "hidden=256,256 normalize_obs=yes", 1, 2, 0, 0, 1},
};

/* At least one option of each choice is legal. */
static void draw_mask(const ppo_space *space, ppo_rng *rng, unsigned char *mask) {
    int heads;
    const int *sizes = ppo__space_heads(space, &heads);
    for (int h = 0; h < heads; mask += sizes[h++]) {
        for (int j = 0; j < sizes[h]; j++) mask[j] = (unsigned char)ppo_rng_below(rng, 2);
        mask[ppo_rng_below(rng, sizes[h])] = 1;
    }
}

static void put(FILE *out, const float *x, size_t n) {
    if (fwrite(x, sizeof *x, n, out) != n) perror("onnx.c"), exit(1);
}

static float *floats(size_t n) {
    float *x = (float *)calloc(n ? n : 1, sizeof *x);
    if (!x) exit(1);
    return x;
}

/* What the agent answers, to NAME.f32. */
static void write_answers(FILE *out, ppo_agent *agent, int masked) {
    const ppo_actor_critic *model = &agent->model;
    const ppo_space *space = &model->action_space;
    const int all = model->obs_size, seen = model->actor_obs, width = model->core.width;
    const int outputs = ppo__space_outputs(space), numbers = ppo__space_width(space);
    const int count = width ? ROWS / STEPS : ROWS, steps = ROWS / count;
    float *obs = floats((size_t)ROWS * all), *view = floats((size_t)count * all),
          *mask = floats((size_t)ROWS * outputs);
    float *policy = floats((size_t)ROWS * outputs), *log_std = floats((size_t)ROWS * outputs),
          *value = floats(ROWS);
    float *action = floats((size_t)ROWS * numbers), *before = floats((size_t)ROWS * width);
    float *after = floats((size_t)ROWS * width), *of_actor = floats((size_t)count * seen);
    unsigned char *legal = (unsigned char *)calloc((size_t)ROWS * outputs, 1);
    int *choice = (int *)calloc((size_t)count * numbers, sizeof *choice);
    ppo_rng rng = ppo_rng_stream(3, PPO_STREAM_USER, 0);
    ppo_tape *tape = NULL;
    check(ppo_tape_create(&tape));
    if (!legal || !choice) exit(1);
    for (int i = 0; i < ROWS; i++) {
        noise(&rng, obs + (size_t)i * all);
        if (i % 10 == 9) obs[(size_t)i * all + i % all] += 5 * spread; /* something rare */
        if (masked) draw_mask(space, &rng, legal + (size_t)i * outputs);
        else memset(legal + (size_t)i * outputs, 1, (size_t)outputs);
    }
    for (size_t i = 0; i < (size_t)ROWS * outputs; i++) mask[i] = legal[i];
    for (int t = 0; t < steps; t++) {
        const size_t first = (size_t)t * count;
        ppo_inputs inputs = {0};
        const ppo_actions actions = {choice, action + first * numbers};
        if (t)
            memcpy(before + first * width, after + (first - count) * width,
                   (size_t)count * width * sizeof(float));
        memcpy(view, obs + first * all, (size_t)count * all * sizeof(float));
        for (int i = 0; i < count; i++)
            memcpy(of_actor + (size_t)i * seen, view + (size_t)i * all, seen * sizeof(float));
        if (agent->obs_norm.size) ppo_normalize(&agent->obs_norm, view, count, agent->clip_obs, view);
        inputs.rows = count;
        inputs.obs = view;
        inputs.sequences.state = before + first * width;
        ppo_tape_reset(tape);
        const ppo_outputs y = ppo_actor_critic_forward(tape, model, &inputs, PPO_POLICY | PPO_VALUE);
        check(ppo_tape_status(tape));
        memcpy(policy + first * outputs, y.policy->data, (size_t)count * outputs * sizeof(float));
        memcpy(value + first, y.value->data, (size_t)count * sizeof(float));
        for (int i = 0; i < count && y.log_std; i++)
            memcpy(log_std + (first + i) * outputs, ppo__log_std_row(y.log_std, i), outputs * sizeof(float));
        memcpy(after + first * width, before + first * width, (size_t)count * width * sizeof(float));
        check(ppo_act_many(agent, of_actor, masked ? legal + first * outputs : NULL, count,
                           width ? after + first * width : NULL, NULL, &actions));
        for (int i = 0; i < count * numbers && space->kind != PPO_BOX; i++)
            action[first * numbers + i] = (float)choice[i];
    }
    put(out, obs, (size_t)ROWS * all);
    put(out, mask, (size_t)ROWS * outputs);
    put(out, policy, (size_t)ROWS * outputs);
    put(out, log_std, (size_t)ROWS * outputs);
    put(out, value, ROWS);
    put(out, action, (size_t)ROWS * numbers);
    put(out, before, (size_t)ROWS * width);
    put(out, after, (size_t)ROWS * width);
    ppo_tape_free(tape);
    float *const made[] = {obs, view, mask, policy, log_std, value, action, before, after, of_actor};
    for (int i = 0; i < COUNT(made); i++) free(made[i]);
    free(legal);
    free(choice);
}

static FILE *create(const char *folder, const char *name, const char *end) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s.%s", folder, name, end);
    FILE *file = fopen(path, "wb");
    if (!file) perror(path), exit(1);
    return file;
}

static void write_agent(const char *folder, int i) {
    char path[512];
    const char *name = agents[i].name;
    ppo_env env = {0};
    env.name = name;
    env.obs_size = OBS;
    env.actor_obs = agents[i].actor_obs;
    env.shape[0] = CHANNELS, env.shape[1] = HEIGHT, env.shape[2] = WIDTH;
    if (strstr(name, "beside")) env.shape[0] = 1; /* and numbers after it */
    else if (env.actor_obs) memset(env.shape, 0, sizeof env.shape);
    env.action_space = ppo__parse_space(agents[i].space);
    env.state_size = sizeof(float);
    env.max_steps = 20;
    env.reset = noise_reset;
    env.step = noise_step;
    place = agents[i].place;
    spread = agents[i].spread;
    const float size =
        strstr(agents[i].settings, "hidden=256") ? 0.02f : 0.3f; /* so that the sums stay of one size */
    ppo_agent *agent = train(&env, agents[i].settings, size, i);
    const ppo_actor_critic *model = &agent->model;
    const ppo_space *space = &env.action_space;
    int heads;
    const int *sizes = ppo__space_heads(space, &heads);
    FILE *text = create(folder, name, "txt"), *answers = create(folder, name, "f32");
    fprintf(text,
            "box %d\nobs %d\nseen %d\npicture %d\noutputs %d\nnumbers %d\nwidth %d\nmask %d\nvalue %d\n",
            space->kind == PPO_BOX, OBS, model->actor_obs,
            model->conv.layers ? ppo__picture_size(model->conv.shape[0]) : 0, ppo__space_outputs(space),
            ppo__space_width(space), model->core.width, agents[i].mask, agents[i].value);
    fprintf(text, "rows %d\nsteps %d\nsizes", ROWS, model->core.width ? STEPS : 1);
    for (int h = 0; h < heads && space->kind != PPO_BOX; h++) fprintf(text, " %d", sizes[h]);
    fprintf(text, "\nshape %d %d %d\n", env.shape[0], HEIGHT, WIDTH);
    fclose(text);
    write_answers(answers, agent, agents[i].mask);
    fclose(answers);
    ppo_onnx_options options = {PPO_ONNX_STANDARD, agents[i].value, agents[i].mask};
    snprintf(path, sizeof path, "%s/%s.onnx", folder, name);
    check(ppo_export_onnx(agent, path, &options));
    options.names = PPO_ONNX_ML_AGENTS;
    snprintf(path, sizeof path, "%s/%s.unity.onnx", folder, name);
    check(ppo_export_onnx(agent, path, &options));
    ppo_agent_free(agent);
}

int main(int argc, char **argv) {
    for (int i = 0; i < COUNT(agents) && argc > 1; i++) {
        write_agent(argv[1], i);
        printf("%s\n", agents[i].name);
    }
    return argc < 2;
}
