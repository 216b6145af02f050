/* threads.c [KERNELS...] - what a second thread adds to the first, by set of kernels: PPO's update at
   minibatches of 256 and 2048, without collecting (that is in collecting.c), and a transformer's training (its
   sampling is in language.c).
   One thread and two take turns, and the ratio is the median of the pairs. cores.c models more cores. */
#define _DEFAULT_SOURCE
#include "ppo.h"

#include "workloads.h"

/* An update's minibatch, 0: the transformer; and the threads. */
typedef struct job {
    int minibatch, threads;
} job;

/* Seconds of training CartPole with so many epochs. */
static double training(const job *j, int epochs) {
    ppo_config c = ppo_config_default();
    c.total_steps = 16 * 4096, c.num_envs = 8, c.rollout_steps = 512;
    c.minibatch_size = j->minibatch, c.epochs = epochs, c.threads = j->threads;
    return train(cartpole_env(), c, NULL);
}

/* Seconds of ten epochs, the difference between twenty and ten; or of 1,000 tokens. */
static int work(const void *user, double *seconds) {
    const job *j = (const job *)user;
    ppo_lm *lm = NULL;
    ppo_tokens data = {0};
    if (j->minibatch) *seconds = training(j, 20) - training(j, 10);
    else if (transformer_create(&lm, &data) || ppo_set_threads(j->threads)) return fail();
    else *seconds = 1000 / train_transformer(lm, &data);
    return !(*seconds > 0);
}

static int measure(const kernel_set *set) {
    static const struct {
        const char *name;
        int minibatch;
    } kinds[] = {{"  update at minibatch 256", 256},
                 {"  update at minibatch 2048", 2048},
                 {"  transformer, 1,000 tokens", 0}};
    (void)set;
    for (int k = 0; k < 3; k++) {
        figures seconds[2] = {{{0}, 0, 0}};
        outcome o;
        for (int i = 0; i < 2 * REPETITIONS; i++) {
            const job j = {kinds[k].minibatch, 1 + i % 2};
            if (!run(NULL, work, &j, 1, &o)) return 1;
            keep(&seconds[i % 2], *o.number, o.mib);
        }
        printf("%s\n", kinds[k].name);
        tell("    one thread", &seconds[0], 3, "seconds");
        tell("    two threads", &seconds[1], 3, "seconds");
        tell_ratio("    ratio", &seconds[0], &seconds[1]);
    }
    return 0;
}

int main(int argc, char **argv) {
    printf("two threads beside one\n\n");
    return by_sets(argc, argv, 0, measure);
}
