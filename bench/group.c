/* group.c - what a group of processes gains, and what it exchanges. Each process runs it, by mpirun; rank 0 prints a line:
       bench-group control MICROSECONDS SHARDS     CartPole whose step takes so long; minibatches of 256
       bench-group language WIDTH LAYERS SHARDS    PPO on tokens, 64 prompts, minibatches of 16
   steps (tokens) per second, and per iteration: megabytes that a process sends, messages, seconds in which it waits for
   them. With LINK=100 in the environment, messages take as long as at 100 MB
   a second; with RANKS=64, one process does the share of one of 64, which have as much work each as one has alone. bench/group.sh calls it. */
#define _DEFAULT_SOURCE
#include "ppo.h"
#include "examples/processes.h"
#include "examples/envs/cartpole.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static double sent_bytes, messages, waited, pause_seconds, link_speed = INFINITY; /* bytes a second */

static ppo_group group; /* that of MPI, with another exchange() */

static ppo_status counted(void *user, int peer, const void *send, size_t sent, void *receive,
                          size_t received) {
    double began = ppo_clock();
    ppo_status status = ppo__mpi_exchange(user, peer, send, sent, receive, received);
    const double until = began + (double)(sent > received ? sent : received) / link_speed;
    if (until > ppo_clock()) usleep((unsigned)(1e6 * (until - ppo_clock())));
    sent_bytes += (double)sent, messages++, waited += ppo_clock() - began;
    return status;
}

/* For the share of one of RANKS processes, which are not there: it receives what it sends. */
static ppo_status mirror(void *user, int peer, const void *send, size_t sent, void *receive,
                         size_t received) {
    (void)user, (void)peer;
    memset(receive, 0, received);
    memcpy(receive, send, sent < received ? sent : received);
    sent_bytes += (double)sent, messages++;
    return PPO_OK;
}

static void slow_step(void *state, ppo_rng *rng, const ppo_action *action, float *obs, ppo_outcome *out) {
    const double until = ppo_clock() + pause_seconds;
    cartpole_step(state, rng, action, obs, out);
    while (ppo_clock() < until) {
    }
}

static int report(const char *what, double amount, double seconds, double iterations) {
    if (ppo_group_rank()) return 0;
    printf("%-24s %9.0f /s  %9.4f MB  %6.1f messages  %8.5f s of %8.5f s\n", what, amount / seconds,
           1e-6 * sent_bytes / iterations, messages / iterations, waited / iterations, seconds / iterations);
    return 0;
}

static ppo_status control(int argc, char **argv, const char *what) {
    ppo_env env = cartpole_env();
    ppo_config c = ppo_config_default();
    ppo_agent *agent = NULL;
    ppo_trainer *trainer = NULL;
    enum { ITERATIONS = 10 };
    const int scale = getenv("RANKS") ? group.size : 1; /* the same amount of work for each */
    pause_seconds = 1e-6 * atof(argv[2]);
    env.step = pause_seconds > 0 ? slow_step : env.step;
    c.num_envs = 16 * scale, c.rollout_steps = 128, c.minibatch_size = 256 * scale, c.epochs = 10;
    c.shards = argc > 3 ? atoi(argv[3]) : 0;
    c.total_steps = (int64_t)(1 + ITERATIONS) * c.num_envs * c.rollout_steps;
    ppo_status status = ppo_agent_create(&env, &c, &agent);
    if (!status) status = ppo_trainer_create(&env, &c, agent, &trainer);
    if (!status) status = ppo_trainer_iterate(trainer, NULL);
    sent_bytes = messages = waited = 0;
    double began = ppo_clock();
    for (int i = 0; i < ITERATIONS && !status; i++) status = ppo_trainer_iterate(trainer, NULL);
    if (!status)
        report(what, (double)ITERATIONS * c.num_envs * c.rollout_steps, ppo_clock() - began, ITERATIONS);
    ppo_trainer_free(trainer);
    ppo_agent_free(agent);
    return status;
}

static ppo_status lengths(const ppo_samples *samples, float *reward, void *user) {
    (void)user;
    for (int s = 0; s < samples->tokens.count; s++)
        reward[s] = (float)(samples->tokens.token[samples->tokens.start[s + 1] - 1] % 7);
    return PPO_OK;
}

static ppo_status language(int argc, char **argv, const char *what) {
    ppo_lm_config shape = ppo_lm_config_default();
    ppo_rlhf_config c = ppo_rlhf_config_default();
    ppo_tokens prompts = {0};
    ppo_lm *lm = NULL;
    ppo_rlhf *rlhf = NULL;
    enum { ITERATIONS = 2 };
    const int scale = getenv("RANKS") ? group.size : 1;
    shape.vocab = 256, shape.context = 64, shape.width = atoi(argv[2]),
    shape.layers = argc > 3 ? atoi(argv[3]) : 2;
    shape.heads = shape.width / 32;
    c.shards = argc > 4 ? atoi(argv[4]) : 1, c.epochs = 1, c.target_kl = 0;
    c.prompts *= scale, c.minibatch_size *= scale;
    ppo_status status = ppo_lm_create(&shape, &lm);
    for (int i = 0; i < 256 && !status; i++) status = ppo_tokens_add(&prompts, &i, 1, 1);
    if (!status) status = ppo_rlhf_create(lm, NULL, NULL, &prompts, lengths, NULL, &c, &rlhf);
    if (!status) status = ppo_rlhf_iterate(rlhf, NULL);
    sent_bytes = messages = waited = 0;
    double began = ppo_clock();
    for (int i = 0; i < ITERATIONS && !status; i++) status = ppo_rlhf_iterate(rlhf, NULL);
    if (!status) report(what, (double)ITERATIONS * c.prompts * 63, ppo_clock() - began, ITERATIONS);
    ppo_rlhf_free(rlhf);
    ppo_lm_free(lm);
    ppo_tokens_free(&prompts);
    return status;
}

int main(int argc, char **argv) {
    char what[64] = "";
    ppo_status status = PPO_ERROR_ARGUMENT;
    group = ppo__mpi_group;
    group.exchange = counted;
    if (getenv("RANKS")) group.exchange = mirror, group.size = atoi(getenv("RANKS"));
    if (ppo_use_group(&group)) return 1;
    if (getenv("LINK")) link_speed = 1e6 * atof(getenv("LINK"));
    for (int i = 1; i < argc; i++) snprintf(what + strlen(what), sizeof what - strlen(what), "%s ", argv[i]);
    snprintf(what + strlen(what), sizeof what - strlen(what), "x %d", group.size);
    if (argc > 2 && !strcmp(argv[1], "control")) status = control(argc, argv, what);
    else if (argc > 2 && !strcmp(argv[1], "language")) status = language(argc, argv, what);
    else ppo_fail(status, "usage: bench-group control MICROSECONDS SHARDS, or language WIDTH LAYERS SHARDS");
    if (status && speaks()) fprintf(stderr, "%s\n", ppo_last_error());
    return status != PPO_OK;
}
