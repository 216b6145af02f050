# package.mk - installing: the headers for pkg-config and CMake, a folder to be copied into a project, a shared library.

PREFIX     ?= /usr/local
VERSION    := $(shell sed -n 's/^\#define PPO_VERSION  *"\(.*\)".*/\1/p' ppo.h)
INSTALL     = $(DESTDIR)$(PREFIX)
DIST        = build/ppo-$(VERSION)
COMPANIONS := $(wildcard examples/companions/*)
INSTALLED   = ppo.h ppo_cuda.cuh $(COMPANIONS)
PACKAGE     = examples/package
FILL_IN     = sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@VERSION@|$(VERSION)|g'

# All headers stand side by side. The environments are examples and not installed: `make dist` copies them. Files that do
# not depend on the processor belong into share/, where pkg-config and CMake find them, too.
install: ## installs the headers, for pkg-config and CMake, too, under PREFIX=/usr/local (DESTDIR=... for packages)
	install -d "$(INSTALL)/include" "$(INSTALL)/share/pkgconfig" "$(INSTALL)/share/cmake/ppo"
	install -m 644 $(INSTALLED) "$(INSTALL)/include"
	$(FILL_IN) $(PACKAGE)/ppo.pc >"$(INSTALL)/share/pkgconfig/ppo.pc"
	$(FILL_IN) $(PACKAGE)/ppoConfig.cmake >"$(INSTALL)/share/cmake/ppo/ppoConfig.cmake"
	$(FILL_IN) $(PACKAGE)/ppoConfigVersion.cmake >"$(INSTALL)/share/cmake/ppo/ppoConfigVersion.cmake"

uninstall: ## removes what `make install` with the same PREFIX has installed
	rm -f $(patsubst %,"$(INSTALL)/include/%",$(notdir $(INSTALLED))) "$(INSTALL)/share/pkgconfig/ppo.pc"
	rm -rf "$(INSTALL)/share/cmake/ppo"

dist: ## makes the folder build/ppo-VERSION/, to be copied into a project
	@rm -rf $(DIST); mkdir -p $(DIST)
	cp $(INSTALLED) LICENSE $(DIST)
	cp -r examples/envs $(DIST)
	sed 's|"companions/|"|' examples/ppo.c >$(DIST)/ppo.c
	@stb=$$($(CC) -I. -M examples/ppo.c 2>/dev/null | tr ' ' '\n' | grep -m1 'stb_ds\.h$$') && cp "$$stb" $(DIST) || \
	    echo "note: stb_ds.h is not included, there is none on this machine"
	@$(FILL_IN) $(PACKAGE)/README.dist >$(DIST)/README
	@echo $(DIST)

# For programs in other languages: libppo.so, libppo.dylib on macOS, ppo.dll by CC=x86_64-w64-mingw32-gcc. It needs
# nothing beside it but the C library.
SHARED_MACHINE = $(shell $(CC) -dumpmachine 2>/dev/null)
MINGW          = $(findstring mingw,$(SHARED_MACHINE))
DARWIN         = $(findstring darwin,$(SHARED_MACHINE))
SHARED         = build/$(if $(MINGW),ppo.dll,$(if $(DARWIN),libppo.dylib,libppo.so))
SHARED_FLAGS   = $(if $(MINGW),-static-libgcc -Ibuild/stb,$(if $(DARWIN),-install_name @rpath/libppo.dylib,-fPIC))

shared: $(if $(MINGW),build/stb/stb_ds.h,build/stb_ds.found) ## makes a shared library for programs in other languages, such as build/libppo.so
	@$(MAKE) --no-print-directory $(SHARED)

# By a name of its own first: a program that has the old library open keeps it.
build/libppo.so build/libppo.dylib build/ppo.dll: $(LIBRARY_PARTS) $(PACKAGE)/package.mk
	$(CC) $(CFLAGS) -shared $(SHARED_FLAGS) -I. $< -o $@.new $(LDLIBS)
	@mv -f $@.new $@ && echo $@

# A compiler for another system does not look where this one's headers are.
build/stb/stb_ds.h:
	@mkdir -p $(@D)
	@cp "$$(cc -I. -M examples/ppo.c | tr ' ' '\n' | grep -m1 'stb_ds\.h$$')" $@

.PHONY: install uninstall dist shared
