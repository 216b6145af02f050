/* ppo_player.h - evaluation of policies in programs with a loop of their own, for ppo.h

       #define PPO_IMPLEMENTATION
       #include "ppo.h"
       #include "ppo_player.h"            // after ppo.h; other files may include it for its declarations

   Copy this file beside ppo.h. In the folder examples/, where it is in companions/, programs include it from
   there: #include "companions/ppo_player.h".

A PLAYER IN PLACE OF THE TRAINER

   ppo_evaluate() plays an environment. A game that pushes what its characters see has none: its own loop has to
   play. Write that loop with a ppo_trainer as its parameter, as you would to train, and give it a player instead:
   a trainer that learns nothing, acts as told, and keeps the figures.

       static void play(ppo_trainer *trainer, int frames) {...}    // yours: observe, act, learn

       ppo_trainer *player;
       play(trainer, 100000);                                // trains
       ppo_player_create(&env, agent, 16, 0, 1, &player);    // the most likely actions of 16 characters
       play(player, 2000);
       printf("mean return %.2f\n", ppo_player_result(player).episodes.mean_return);
       ppo_trainer_free(player);

   Rewards are raw and statistics frozen, as in ppo_evaluate(). Beside the most likely actions, look at sampled ones:
   either may be much better. For a player at random, sample from an agent that ppo_agent_create() has just made.

TWO PLAYERS

       ppo_agent *earlier;
       ppo_agent_copy(agent, &earlier);                           // and train on
       float mean = ppo_evaluate_match(agent, earlier, &env, 100, 1).mean_return;    // of a world with teams

   License: that of ppo.h. */
#ifndef PPO_PLAYER_H
#define PPO_PLAYER_H
#ifndef PPO_H
#error "include ppo.h before ppo_player.h"
#elif PPO_VERSION_MAJOR != 0 || PPO_VERSION_MINOR != 3
#error "ppo_player.h belongs to version 0.3 of ppo.h"
#endif

#ifndef PPO_NO_CONTROL
#ifdef __cplusplus
extern "C" {
#endif

/* A player for `sources` characters, 0 .. sources - 1. sample 0: the most likely actions, 1: sampled ones. Use it as a
   trainer, with ppo_trainer_observe(), _act(), _learn(), which returns at once, and _free(). The agent is borrowed, and
   may be trained between two frames. Errors: env has functions, which ppo_evaluate() plays; the agent does not fit it;
   sources is not 1 to 65536. */
PPO_DEF ppo_status ppo_player_create(const ppo_env *env, ppo_agent *agent, int sources, int sample,
                                     uint64_t seed, ppo_trainer **player);

typedef struct ppo_player_figures {
    ppo_evaluation episodes; /* those that have ended; none: the figures are NaN, but status is PPO_OK */
    int64_t steps;           /* all, also of episodes that go on, */
    float mean_reward;       /* and their mean reward; NaN: there was none */
} ppo_player_figures;

/* What a player has done so far. Its episodes.status is an error if `player` is none. */
PPO_DEF ppo_player_figures ppo_player_result(const ppo_trainer *player);

/* ppo_evaluate_sampled() of a match: the agent plays one team, another one in each episode, and the opponent,
   which may be the same agent, the others. The figures are those of the agent's team. Error: env.teams is
   below 2. */
PPO_DEF ppo_evaluation ppo_evaluate_match(ppo_agent *agent, ppo_agent *opponent, const ppo_env *env,
                                          int episodes, uint64_t seed);

#ifdef __cplusplus
}
#endif
#endif
#endif

/* ========================================================================================================
   IMPLEMENTATION
   ======================================================================================================== */

#if defined(PPO_IMPLEMENTATION) && !defined(PPO__PLAYER_IMPLEMENTED)
#define PPO__PLAYER_IMPLEMENTED
#ifndef PPO_NO_CONTROL

PPO__WARNINGS_OFF

/* A trainer whose collector records nothing, as in an evaluation, and whose steps are all done. */
typedef struct ppo__game_player {
    ppo_trainer trainer; /* first: it is what the program has */
    int episodes;
    int64_t steps;
    double returns, squares, lengths, least, most, earned;
} ppo__game_player;

/* Counts what followed agent e's latest action. */
static void ppo__player_observed(ppo_trainer *trainer, int e, const ppo_outcome *out) {
    ppo__game_player *player = (ppo__game_player *)trainer;
    const ppo__envs *envs = &trainer->collector.envs;
    const double total = envs->episode_return[e];
    ++player->steps;
    player->earned += (double)out->reward;
    if ((!out->terminated && !out->truncated) || player->episodes == INT_MAX) return;
    player->least = player->episodes ? fmin(player->least, total) : total;
    player->most = player->episodes ? fmax(player->most, total) : total;
    player->returns += total;
    player->squares += total * total;
    player->lengths += envs->length[e];
    ++player->episodes;
}

PPO_DEF ppo_status ppo_player_create(const ppo_env *env, ppo_agent *agent, int sources, int sample,
                                     uint64_t seed, ppo_trainer **out) {
    if (!PPO__GIVEN("ppo_player_create", out)) return PPO_ERROR_ARGUMENT;
    *out = NULL;
    ppo_status status = ppo__check_functions(env);
    if (!status) status = ppo__check_fits(agent, env, "environment");
    if (status) return status;
    if (!ppo__is_pushed(env))
        return ppo__refuse("ppo_player_create: the environment has functions: ppo_evaluate() plays it");
    if (sources < 1 || sources > 65536)
        return ppo__refuse("ppo_player_create: %d sources, outside 1 to 65536", sources);
    ppo__game_player *player = (ppo__game_player *)ppo__alloc(sizeof *player);
    if (!player) return PPO_ERROR_MEMORY;
    ppo_trainer *trainer = &player->trainer;
    ppo__collector *c = &trainer->collector;
    trainer->config = agent->config;
    trainer->config.total_steps = 0;
    trainer->agent = c->agent = agent;
    trainer->observed = ppo__player_observed;
    c->config = &trainer->config;
    c->width = agent->model.core.width;
    c->greedy = !sample;
    status = ppo__collector_open(c, env, sources, 1, 1, seed, PPO_STREAM_EVALUATE, 0);
    if (status) ppo_trainer_free(trainer);
    else *out = trainer;
    return status;
}

PPO_DEF ppo_player_figures ppo_player_result(const ppo_trainer *trainer) {
    ppo_player_figures result = {{PPO_OK, 0, NAN, NAN, NAN, NAN, NAN}, 0, NAN};
    const ppo__game_player *player = (const ppo__game_player *)trainer;
    if (!trainer || trainer->observed != ppo__player_observed) {
        result.episodes.status = ppo__refuse("ppo_player_result: this is no player of ppo_player_create()");
        return result;
    }
    const double n = result.episodes.episodes = player->episodes, mean = player->returns / n;
    result.steps = player->steps;
    if (player->steps) result.mean_reward = (float)(player->earned / (double)player->steps);
    if (!player->episodes) return result;
    result.episodes.mean_return = (float)mean;
    result.episodes.std_return = (float)sqrt(fmax(player->squares / n - mean * mean, 0));
    result.episodes.min_return = (float)player->least;
    result.episodes.max_return = (float)player->most;
    result.episodes.mean_length = (float)(player->lengths / n);
    return result;
}

PPO_DEF ppo_evaluation ppo_evaluate_match(ppo_agent *agent, ppo_agent *opponent, const ppo_env *env,
                                          int episodes, uint64_t seed) {
    return ppo__evaluate(agent, opponent, 1, 1, env, episodes, seed);
}

PPO__WARNINGS_BACK

#endif
#endif
