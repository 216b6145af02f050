#!/bin/sh
# plot.sh - build/plot: what it draws from which files, and what it refuses. Reports in TAP.
work=build/plot-test
. "$(dirname "$0")/check.sh"
logs="$work/out $work/err"

plot() { # leaves $work/out, $work/err and $status
    rm -f $work/a.svg
    build/plot "$@" >$work/out 2>$work/err
    status=$?
}

cat >$work/a.csv <<'END_OF_CSV'
rollout/ep_rew_mean,time/total_timesteps,time/fps,empty
,1000,50,
10,2000,60,
nan,3000,70,
30,4000,80,
END_OF_CSV
printf 'time/total_timesteps,rollout/ep_rew_mean\r\n1000,5\r\n4000,25' >$work/b.csv

# Drawn: status 0, silence, and a chart with so many curves of so many points each.
is_drawn() {
    curves=$1 points=$2
    shift 2
    plot --out $work/a.svg "$@"
    [ $status -eq 0 ] && [ ! -s $work/out ] && [ ! -s $work/err ] && tail -n 1 $work/a.svg | grep -q '^</svg>$' || return 1
    grep 'fill="none"' $work/a.svg >$work/curves
    [ "$(wc -l <$work/curves)" -eq "$curves" ] || return 1
    while read -r curve; do
        [ "$(echo "$curve" | tr -cd ML | wc -c)" -eq "$points" ] || return 1
    done <$work/curves
}
has_text() { for text in "$@"; do grep -q ">$text</text>" $work/a.svg || { echo "no $text"; return 1; }; done; }
has_not()  { for text in "$@"; do ! grep -q ">$text</text>" $work/a.svg || { echo "$text"; return 1; }; done; }

check draws_the_return_over_the_steps     is_drawn 1 2 $work/a.csv
check names_the_axes                      has_text rollout/ep_rew_mean time/total_timesteps 2500 10 30
check one_curve_needs_no_legend           has_not $work/a.csv
check draws_a_column_that_is_asked_for    is_drawn 1 4 --y time/fps --title 'Speed &amp; more' $work/a.csv
check has_a_title                         has_text 'Speed &amp;amp; more' time/fps
check draws_against_another_column        is_drawn 1 2 --x time/fps $work/a.csv
check draws_several_columns               is_drawn 2 4 --y time/fps --y time/total_timesteps $work/a.csv
check names_them                          has_text time/fps
check draws_several_files                 is_drawn 2 2 $work/a.csv $work/b.csv
check names_the_files                     has_text $work/a.csv $work/b.csv
check draws_a_column_of_empty_fields      is_drawn 0 0 --y empty $work/a.csv

# Refused: exit status 1, nothing on stdout, one line on stderr that holds the word, no chart.
is_refused() {
    word=$1
    shift
    plot --out $work/a.svg "$@"
    [ $status -eq 1 ] && [ ! -s $work/out ] && [ "$(wc -l <$work/err)" -eq 1 ] && grep -q -e "$word" $work/err &&
        [ ! -f $work/a.svg ]
}
check refuses_no_file                     is_refused file
check refuses_a_missing_file              is_refused nowhere.csv $work/nowhere.csv
check refuses_a_missing_column            is_refused 'no column nothing' --y nothing $work/a.csv
check refuses_a_missing_x                 is_refused 'no column nothing' --x nothing $work/a.csv
check refuses_part_of_a_name              is_refused 'no column time' --y time $work/a.csv
check refuses_an_unknown_flag             is_refused no-such-flag --no-such-flag 1 $work/a.csv
check refuses_a_missing_value             is_refused title $work/a.csv --title
check refuses_an_empty_file               is_refused 'no column' /dev/null
check refuses_a_place_that_is_none        is_refused 'Not a directory' $work/a.csv --out $work/a.csv/a.svg

help_is_given() { plot --help && [ $status -eq 0 ] && grep -q -e '--title' $work/out; }
check help_is_given help_is_given

log_of_a_run() { # what ppo_log_open() writes; the program is the one that its comment describes
    cat >$work/run.c <<'END_OF_C'
#define PPO_IMPLEMENTATION
#include "ppo.h"
#include "examples/envs/cartpole.h"
static int on_iteration(const ppo_progress *progress, void *log) {
    return ppo_log_write((ppo_log *)log, progress);
}
int main(void) {
    ppo_env    env = cartpole_env();
    ppo_config cfg = ppo_config_default();
    ppo_agent *agent = NULL;
    ppo_log   *log = NULL;
    if (ppo_log_open("build/plot-test/runs/1/progress.csv", NULL, 0, &log) != PPO_OK) return 1;
    cfg.total_steps = 8 * 2048;
    cfg.callback = on_iteration;
    cfg.callback_user = log;
    ppo_status status = ppo_train(&env, &cfg, &agent);
    ppo_agent_free(agent);
    ppo_log_close(log);
    return status;
}
END_OF_C
    ${CC:-cc} -O2 -DPPO_NO_IMPLEMENTATION -I. $work/run.c build/ppo.o -o $work/run -lm && $work/run && is_drawn 1 8 $work/runs/1/progress.csv
}
check draws_the_log_of_a_run log_of_a_run

finish
