#!/bin/sh
# traps_numbers.sh - numbers that went wrong in the hands of users, where a compiler is needed. Reports in TAP.
work=build/traps_numbers
. "$(dirname "$0")/check.sh"

cat >$work/write.c <<'END'
#define PPO_IMPLEMENTATION
#define PPO_NO_LANGUAGE
#define PPO_NO_REPORTS
#include "ppo.h"
#include "companions/ppo_export.h"
#include <stdio.h>
static int write_policy(int n, const int *sizes, const char *name, const char *path) {
    ppo_env    env = {0};
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    env.obs_size = 1;
    env.action_space = sizes ? ppo_multi_discrete(sizes, n) : ppo_discrete(n);
    cfg.hidden_layers = 0;
    if (ppo_agent_create(&env, &cfg, &agent)) return 1;
    ppo_tensor *weight = agent->model.actor.weight[0];
    for (int j = 0; j < weight->cols; j++) weight->data[j] = (float)j - 2;
    ppo_status status = ppo_export_c(agent, name, path);
    ppo_agent_free(agent);
    return status != PPO_OK;
}
int main(int argc, char **argv) {
    static const int sizes[2] = {3, 2};
    return argc < 3 || write_policy(4, NULL, "one", argv[1]) ||
           write_policy(2, sizes, "two", argv[2]);
}
END
cat >$work/read.c <<'END'
#include "one.h"
#include "two.h"
int main(void) {
    static const unsigned char first[4] = {1, 0, 0, 0}, low[5] = {1, 1, 0, 1, 0}, none[5] = {0, 0, 0, 1, 1};
    static const float sizes[3] = {1, 1e9f, 3e38f};
    int i, wrong = 0, choices[2];
    for (i = 0; i < 3; ++i) {
        wrong |= one_predict(&sizes[i]) != 3 || one_predict_masked(&sizes[i], first) != 0;
        wrong |= one_predict_masked(&sizes[i], 0) != 3;
        two_predict_masked(&sizes[i], low, choices);
        wrong |= choices[0] != 1 || choices[1] != 0;
        two_predict_masked(&sizes[i], none, choices);
        wrong |= choices[0] != -1 || choices[1] != 1;
    }
    return wrong;
}
END
exported_masks() {
    ${CC:-cc} -O0 -I. -Iexamples $work/write.c -o $work/write -lm && $work/write $work/one.h $work/two.h &&
        ${CC:-cc} -std=c99 -Wall -Wextra -Wpedantic -Werror -I$work $work/read.c -o $work/read && $work/read
}
check an_exported_policy_takes_legal_actions_only exported_masks

finish
