/* systems.c - run by systems.sh on every system that it has a compiler for:
       systems write FOLDER STEPS MINIMUM   trains CartPole, which must reach the mean return, and writes FOLDER/policy,
                                            FOLDER/checkpoint and FOLDER/sum, a hash of the numbers in each
       systems read FOLDER...               reads those of other systems: the numbers must have the same bits. The state
                                            of an environment is plain bytes, so a checkpoint is refused by a system of
                                            the other byte order; its policy is read all the same.
   Prints one line, and returns 0 if all is well. */
#include "ppo.h"
#include "examples/companions/ppo_resume.h"
#include "examples/envs/cartpole.h"

#include <stdlib.h>
#include <string.h>

static uint64_t hash; /* FNV-1a of the numbers' values: the order of their bytes does not matter */

static void add(uint64_t bits) {
    for (int i = 0; i < 64; i += 8) hash = (hash ^ (bits >> i & 255)) * 1099511628211u;
}

static void add_floats(const float *x, size_t n) {
    uint32_t bits;
    for (size_t i = 0; i < n; i++) memcpy(&bits, x + i, sizeof bits), add(bits);
}

static void add_doubles(const double *x, int n) {
    uint64_t bits;
    for (int i = 0; i < n; i++) memcpy(&bits, x + i, sizeof bits), add(bits);
}

/* moments: those of Adam, which a checkpoint has and a policy does not */
static void hash_agent(const ppo_agent *agent, int moments, char text[32]) {
    const ppo_params *p = agent->model.params;
    hash = 14695981039346656037u;
    add_floats(p->data, p->count);
    if (moments) add_floats(p->m, p->count), add_floats(p->v, p->count);
    add_doubles(agent->obs_norm.mean, agent->obs_norm.size);
    add_doubles(agent->obs_norm.var, agent->obs_norm.size);
    snprintf(text, 32, "%08lx%08lx\n", (unsigned long)(hash >> 32), (unsigned long)(hash & 0xffffffffu));
}

static char path[512];
static const char *in(const char *folder, const char *name) {
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void must(ppo_status status) {
    if (status == PPO_OK) return;
    printf("%s\n", ppo_last_error());
    exit(1);
}

static int write_files(const char *folder, int steps, double minimum) {
    ppo_env env = cartpole_env();
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    char policy_hash[32], checkpoint_hash[32];
    cfg.total_steps = steps;
    cfg.normalize_obs = 1;
    cfg.threads = ppo_set_threads(2) == PPO_OK ? 2 : 1; /* where the system has threads */
    must(ppo_set_threads(1));
    must(ppo_agent_create(&env, &cfg, &agent));
    must(ppo_trainer_create(&env, &cfg, agent, &trainer));
    while (!ppo_trainer_done(trainer)) must(ppo_trainer_iterate(trainer, NULL));
    must(ppo_agent_save(agent, in(folder, "policy")));
    must(ppo_trainer_save(trainer, in(folder, "checkpoint")));
    hash_agent(agent, 0, policy_hash);
    hash_agent(agent, 1, checkpoint_hash);

    FILE *sum = fopen(in(folder, "sum"), "wb");
    if (!sum || fprintf(sum, "%s%s", policy_hash, checkpoint_hash) < 0 || fclose(sum) != 0)
        return printf("cannot write %s\n", path), 1;

    ppo_evaluation e = ppo_evaluate(agent, &env, 20, 1);
    must(e.status);
    printf("mean return %.1f after %d steps, %s kernels, %d-bit pointers\n", (double)e.mean_return, steps,
           ppo_kernels_name(), 8 * (int)sizeof(void *));
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
    return (double)e.mean_return < minimum;
}

static int read_files(const char *folder) {
    ppo_env env = cartpole_env();
    ppo_agent *policy = NULL, *agent = NULL;
    ppo_trainer *trainer = NULL;
    char policy_hash[32], checkpoint_hash[32], want[2][32] = {"", ""};
    must(ppo_agent_load(in(folder, "policy"), &env, &policy));
    hash_agent(policy, 0, policy_hash);
    ppo_agent_free(policy);

    FILE *sum = fopen(in(folder, "sum"), "rb");
    if (!sum || !fgets(want[0], 32, sum) || !fgets(want[1], 32, sum))
        return printf("cannot read %s\n", path), 1;
    fclose(sum);
    ppo_status status = ppo_trainer_resume(in(folder, "checkpoint"), &env, NULL, &agent, &trainer);
    int foreign = status != PPO_OK && strstr(ppo_last_error(), "big-endian") != NULL;
    if (foreign) must(ppo_agent_load(path, &env, &agent));
    else must(status);
    hash_agent(agent, !foreign, checkpoint_hash);
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
    if (strcmp(want[0], policy_hash) != 0 || strcmp(want[foreign ? 0 : 1], checkpoint_hash) != 0)
        return printf("%s: numbers differ\n", folder), 1;
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 5 && !strcmp(argv[1], "write")) return write_files(argv[2], atoi(argv[3]), atof(argv[4]));
    if (argc < 3 || strcmp(argv[1], "read")) return printf("usage: systems write FOLDER STEPS MINIMUM\n"), 1;
    for (int i = 2; i < argc; i++)
        if (read_files(argv[i])) return 1;
    printf("read the files of %d systems\n", argc - 2);
    return 0;
}
