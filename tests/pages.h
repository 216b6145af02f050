/* pages.h - the size of an arena's pages as a variable: test.h makes it so small that each array has a page of its own,
   and may be refused. Include this before ppo.h, where its implementation is. */
#ifndef PPO_TEST_PAGES_H
#define PPO_TEST_PAGES_H

#include <stddef.h>

size_t test_page_size = 16 * 1024;
#define PPO__PAGE_SIZE test_page_size

#endif
