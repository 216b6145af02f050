/* connect4.c - connect four, learned by self-play: no rules of thumb, no teacher, no games of others.

   Two agents play in one world, both with the policy that is trained; in half of the games one of them is an
   earlier policy (setting self_play), so that what beats the latest one must beat its ancestors, too. You will see
   the training, then the result of 1,000 games against a player that it has never met: one that completes a line
   where it can, else blocks one, else moves at random. The board at the end of the last game is printed, too.

       build/connect4                        70 seconds on one core
       build/connect4 --seed 2 --kernels plain --total-steps 500000 */
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "envs/connect4.h"

#include <stdlib.h>

static void must(ppo_status status) {
    if (status == PPO_OK) return;
    fprintf(stderr, "connect4: %s\n", ppo_last_error());
    exit(1);
}

static int draw_the_end(const ppo_frame *frame, void *user) {
    if (frame->terminated) ((const ppo_env *)user)->draw(frame->state, stdout);
    return 0;
}

int main(int argc, char **argv) {
    enum { GAMES = 1000 };
    ppo_env world = connect4_env(), opponent = connect4_opponent_env();
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    must(ppo_config_set_all(&cfg,
                            "total_steps=4000000 num_envs=64 rollout_steps=128 minibatch_size=512 epochs=4 "
                            "hidden=256,128 shared_trunk=yes activation=relu learning_rate=1.5e-3 gamma=1 "
                            "gae_lambda=0.8 entropy_coef=0.04 self_play=8 snapshot_every=10"));
    cfg.callback = ppo_print_progress;
    for (int i = 1; i < argc; i += 2) { /* pairs of a flag and its value */
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        if (strncmp(name, "--", 2))
            must(ppo_fail(PPO_ERROR_ARGUMENT, "a flag starts with --, unlike %.60s", name));
        must(strcmp(name, "--kernels") ? ppo_config_set(&cfg, name + 2, value) : ppo_use_kernels(value));
    }

    double start = ppo_clock();
    must(ppo_train(&world, &cfg, &agent));
    double seconds = ppo_clock() - start;

    int won = 0, lost = 0;
    for (int game = 1; game <= GAMES; game++) {
        ppo_watcher watch = game == GAMES ? draw_the_end : NULL;
        float result;
        must(ppo_play(agent, &opponent, (uint64_t)game, 0, watch, &opponent, &result));
        won += result > 0;
        lost += result < 0;
    }
    printf("of %d games, won %.1f %%, lost %.1f %%, drawn %.1f %% (trained for %.0f s)\n", GAMES,
           100.0 * won / GAMES, 100.0 * lost / GAMES, 100.0 * (GAMES - won - lost) / GAMES, seconds);
    ppo_agent_free(agent);
}
