/* stb_ds.h from where ppo.h finds it, for tests that read the length of its arrays. */
#ifndef PPO_TEST_STB_H
#define PPO_TEST_STB_H

#define STBDS_NO_SHORT_NAMES
#if defined(__has_include)
#if __has_include("stb_ds.h")
#include "stb_ds.h"
#elif __has_include(<stb/stb_ds.h>)
#include <stb/stb_ds.h>
#else
#include <stb_ds.h>
#endif
#else
#include "stb_ds.h"
#endif

#endif
