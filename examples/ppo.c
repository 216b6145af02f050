/* ppo.c - the library, compiled once: the other files of a program include ppo.h for its declarations only. */
#define PPO_IMPLEMENTATION
#include "ppo.h"

/* Companions: those that the program uses. */
#include "companions/ppo_export.h"
#include "companions/ppo_report.h"
#include "companions/ppo_hub.h"
