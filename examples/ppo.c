/* ppo.c - the library, compiled once: the other files of a program include ppo.h for its declarations only. */
#define PPO_VECTOR16 /* for programs that are copied to any processor, and --kernels vector16 */
#define PPO_IMPLEMENTATION
#include "ppo.h"

/* Companions: those that the program uses. */
#include "companions/ppo_chat.h"
#include "companions/ppo_check.h"
#include "companions/ppo_conv.h"
#include "companions/ppo_explain.h"
#include "companions/ppo_export.h"
#include "companions/ppo_flat.h"
#include "companions/ppo_report.h"
#include "companions/ppo_gru.h"
#include "companions/ppo_group.h"
#include "companions/ppo_gguf.h"
#include "companions/ppo_hub.h"
#include "companions/ppo_judge.h"
#include "companions/ppo_methods.h"
#include "companions/ppo_onnx.h"
#include "companions/ppo_player.h"
#include "companions/ppo_resume.h"
#include "companions/ppo_teach.h"
#include "companions/ppo_amx.h"
