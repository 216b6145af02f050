#include "ppo.h"

ppo_tensor *tape_squared_distance(ppo_tape *tape, ppo_tensor *a, ppo_tensor *b);
