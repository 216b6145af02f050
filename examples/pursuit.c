/* pursuit.c - sixteen hunters in one world learn to wait for each other.

   All hunters act with one policy, each on what it sees itself. A hunter that meets a boar alone is hurt and leaves
   the world for a while; two together catch the boar. You will see the training, and then how many boars are caught
   and how many hunters are hurt in 200 steps, as a mean over 50 worlds, by hunters

       who go anywhere;
       who are greedy: each goes to the nearest boar that it sees;
       who are patient: the same, but they wait two cells away from it until another hunter is as near;
       who have learned.

   Those who have learned are hurt less than all the others, and catch three times as many boars as the greedy ones. The
   patient script, by a person who knows the rules, catches more than they do.

       build/pursuit                         10 seconds on one core
       build/pursuit --seed 2 --gamma 0.9 */
#define PPO_IMPLEMENTATION
#include "ppo.h"

#include <stdlib.h>

#include "envs/pursuit.h"

static void must(ppo_status status) {
    if (status == PPO_OK) return;
    fprintf(stderr, "pursuit: %s\n", ppo_last_error());
    exit(1);
}

/* A scripted hunter's move. */
static int scripted(const pursuit *s, int i, int patient, ppo_rng *rng) {
    pursuit_place at = s->hunter[i];
    int nearest = -1, best = 2 * PURSUIT_SIZE, others = 0;
    for (int k = 0; k < PURSUIT_BOARS; k++) {
        int x = abs(pursuit_way(at.x, s->boar[k].x)), y = abs(pursuit_way(at.y, s->boar[k].y));
        if (x <= PURSUIT_SIGHT && y <= PURSUIT_SIGHT && x + y < best) best = x + y, nearest = k;
    }
    if (nearest < 0) return ppo_rng_below(rng, 5); /* sees none */
    pursuit_place boar = s->boar[nearest];
    for (int k = 0; k < PURSUIT_HUNTERS; k++)
        others += k != i && !s->pause[k] && pursuit_distance(s->hunter[k], boar) <= 2;
    int wanted = patient && !others ? 2 : 0, first = ppo_rng_below(rng, 5), move = first;
    for (int j = 0; j < 5; j++) { /* the move after which its distance is nearest to the wanted one */
        int m = (first + j) % 5;
        if (abs(pursuit_distance(pursuit_go(at, m), boar) - wanted) <
            abs(pursuit_distance(pursuit_go(at, move), boar) - wanted))
            move = m;
    }
    return move;
}

enum { ANYWHERE, GREEDY, PATIENT, LEARNED };

/* Plays worlds in a loop of our own, and prints boars caught and hunters hurt, per world. */
static void hunt(int who, ppo_agent *agent, const char *name) {
    enum { WORLDS = 50 };
    ppo_env env = pursuit_env();
    ppo_rng rng = ppo_rng_stream(1, PPO_STREAM_USER, (uint32_t)who);
    double caught = 0, hurt = 0;
    for (int world = 0; world < WORLDS; world++) {
        static float obs[PURSUIT_HUNTERS * PURSUIT_OBS];
        ppo_outcome out[PURSUIT_HUNTERS];
        ppo_action action[PURSUIT_HUNTERS];
        int move[PURSUIT_HUNTERS];
        ppo_actions moves = {move, NULL};
        pursuit s;
        memset(out, 0, sizeof out);
        memset(action, 0, sizeof action);
        env.reset_all(&s, &rng, obs, out);
        for (int step = 0; step < env.max_steps; step++) {
            if (who == LEARNED) must(ppo_act_many(agent, obs, NULL, PURSUIT_HUNTERS, NULL, &rng, &moves));
            for (int i = 0; i < PURSUIT_HUNTERS; i++)
                action[i].discrete = who == LEARNED    ? move[i]
                                     : who == ANYWHERE ? ppo_rng_below(&rng, 5)
                                                       : scripted(&s, i, who == PATIENT, &rng);
            memset(out, 0, sizeof out);
            env.step_all(&s, &rng, action, obs, out);
        }
        caught += s.caught;
        hurt += s.hurt;
    }
    printf("%-10s caught %5.1f   hurt %5.1f\n", name, caught / WORLDS, hurt / WORLDS);
}

int main(int argc, char **argv) {
    ppo_env env = pursuit_env();
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    must(ppo_config_set_all(&cfg,
                            "total_steps=1500000 num_envs=64 rollout_steps=32 minibatch_size=256 hidden=128 "
                            "activation=relu learning_rate=1e-3 epochs=4 gamma=0.95 entropy_coef=0.01"));
    cfg.callback = ppo_print_progress;
    for (int i = 1; i < argc; i += 2) { /* pairs of a flag and its value */
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        if (strncmp(name, "--", 2))
            must(ppo_fail(PPO_ERROR_ARGUMENT, "a flag starts with --, unlike %.60s", name));
        must(strcmp(name, "--kernels") ? ppo_config_set(&cfg, name + 2, value) : ppo_use_kernels(value));
    }
    must(ppo_train(&env, &cfg, &agent));
    printf("in 200 steps, mean of 50 worlds\n");
    hunt(ANYWHERE, NULL, "anywhere");
    hunt(GREEDY, NULL, "greedy");
    hunt(PATIENT, NULL, "patient");
    hunt(LEARNED, agent, "learned");
    ppo_agent_free(agent);
}
