# trust.mk - tests of what users trust without looking: what failing calls and lost power leave on the disk. Each target is
# too long for make test, which runs a short version of it where there is one.

# The expectation of every gradient: two tables, each on a processor of its own, in two minutes.
STATS := build/plain/test_unbiased build/plain/test_unbiased_tokens

stats: build/stb_ds.found build/cmocka.found ## is every estimator of a gradient unbiased? tables, with what would be found and by chance
	@$(MAKE) --no-print-directory -s $(STATS)
	@for t in $(STATS); do PPO_STATS=1 $$t >$$t.txt 2>&1 & p="$$p $$!"; done; s=0; for i in $$p; do wait $$i || s=1; done; \
	for t in $(STATS); do sed -n -e 's/^# //p' -e '/FAILED\|ERROR/p' $$t.txt; done; exit $$s

.PHONY: stats

# Small faults in the library, N of them, chosen by SEED, one at a time: mutants.py.
mutants: build/stb_ds.found build/cmocka.found ## plants N=1000 small faults, one at a time: do the tests notice? SEED=2 plants others
	@command -v python3 >/dev/null || { echo "skipped: there is no Python 3"; exit 0; }; \
	    CC="$(CC)" python3 tests/mutants.py $(or $(N),1000) $(or $(SEED),1)

.PHONY: mutants
