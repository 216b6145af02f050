#include "ppo.h"

ppo_env lander_env(void);
