# trust.mk - tests of what users trust without looking: what failing calls and lost power leave on the disk. Each target is
# too long for make test, which runs a short version of it where there is one.
