/* For convert_compare.py: what a policy answers. convert POLICY OBSERVATIONS ANSWERS reads floats [n][numbers] and writes,
   as floats, [n][outputs] logits or means, [n][outputs] log_std (0 but of a box), [n] values, and [n][numbers of an
   action] the most likely actions, array after array. */
#define PPO_IMPLEMENTATION
#include "../ppo.h"

static void check(int failed, const char *what) {
    if (!failed) return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void put(FILE *out, const float *x, size_t n) {
    check(fwrite(x, sizeof *x, n, out) != n, "cannot be written");
}

int main(int argc, char **argv) {
    enum { MOST = 1 << 20 };
    static float obs[MOST], view[MOST], box[MOST], numbers[MOST];
    static int choice[MOST];
    ppo_agent *agent = NULL;
    ppo_tape *tape = NULL;
    check(argc != 4, "convert POLICY OBSERVATIONS ANSWERS");
    check(ppo_agent_load(argv[1], NULL, &agent) || ppo_tape_create(&tape), ppo_last_error());
    FILE *in = fopen(argv[2], "rb"), *out = fopen(argv[3], "wb");
    check(!in || !out, "a file cannot be opened");
    const ppo_actor_critic *model = &agent->model;
    const int size = model->obs_size, rows = (int)(fread(obs, sizeof *obs, MOST, in) / (size_t)size);
    const int outputs = ppo__space_outputs(&model->action_space),
              width = ppo__space_width(&model->action_space);
    const ppo_actions actions = {choice, box};
    check(ppo_act_many(agent, obs, NULL, rows, NULL, NULL, &actions), ppo_last_error());
    memcpy(view, obs, sizeof view);
    if (agent->obs_norm.size) ppo_normalize(&agent->obs_norm, obs, rows, agent->clip_obs, view);
    ppo_inputs inputs = {0};
    inputs.rows = rows;
    inputs.obs = view;
    const ppo_outputs y = ppo_actor_critic_forward(tape, model, &inputs, PPO_POLICY | PPO_VALUE);
    check(ppo_tape_status(tape), ppo_last_error());
    put(out, y.policy->data, (size_t)rows * outputs);
    for (int i = 0; i < rows && y.log_std; i++)
        memcpy(numbers + (size_t)i * outputs, ppo__log_std_row(y.log_std, i), outputs * sizeof(float));
    put(out, numbers, (size_t)rows * outputs);
    put(out, y.value->data, (size_t)rows);
    for (int i = 0; i < rows * width && !model->log_std; i++) box[i] = (float)choice[i];
    put(out, box, (size_t)rows * width);
    fclose(in);
    check(fclose(out), "cannot be written");
    ppo_tape_free(tape);
    ppo_agent_free(agent);
    return 0;
}
