# ronda: build, test, install.  `make help` lists the targets.
#
# One tree of objects per configuration, out of the sources' way:
#
#   build/            what users get: libronda.a, libronda.so, ronda, tests/, bench/, examples/
#   build/address/    the same with SAN=address (and undefined behaviour)
#   build/thread/     the same with SAN=thread
#   build/fuzz/       the fuzzers, SAN=fuzz, which needs clang
#
# A new source, test, bench or example needs no line here: the wildcards find it.

SHELL := /bin/sh
.DEFAULT_GOAL := all
.SUFFIXES:
.SECONDARY:
.DELETE_ON_ERROR:

# --- what users may set -------------------------------------------------------------------------

SAN     ?=
BUILD   ?= build
CFLAGS  ?= $(if $(SAN),-O1 -g -fno-omit-frame-pointer,-O3 -g)
WERROR  ?= -Werror
PREFIX  ?= /usr/local
DESTDIR ?=
LIBDIR     ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
BINDIR     ?= $(PREFIX)/bin
MANDIR     ?= $(PREFIX)/share/man
JOBS := $(shell nproc 2>/dev/null || echo 2)
Q := $(if $(V),,@)

# The header has the version; a number such as 10203 is 1.2.3.
NUMBER  := $(shell awk '$$2 == "RONDA_VERSION" { print $$3 }' include/ronda.h)
VERSION := $(shell awk 'BEGIN { n = $(NUMBER); printf "%d.%d.%d", n / 10000, n / 100 % 100, n % 100 }')
SONAME  := libronda.so.$(firstword $(subst ., ,$(VERSION)))

# --- flags --------------------------------------------------------------------------------------

O := $(BUILD)$(if $(SAN),/$(SAN))

SAN_FLAGS_address := -fsanitize=address,undefined -fno-sanitize-recover=all
SAN_FLAGS_thread  := -fsanitize=thread
SAN_FLAGS_fuzz    := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
ifneq ($(SAN),)
ifeq ($(SAN_FLAGS_$(SAN)),)
$(error SAN is address, thread or fuzz, not $(SAN))
endif
endif

WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes $(WERROR)
# Bits are promised, so no compiler may fuse a multiplication with an addition.
HOUSE    := -std=c17 -D_GNU_SOURCE $(WARNINGS) -fvisibility=hidden -fPIC -pthread \
            -ffp-contract=off $(SAN_FLAGS_$(SAN))
INCLUDES := -Iinclude -Isrc
COMPILE   = $(CC) $(CPPFLAGS) $(CFLAGS) $(HOUSE) $(SET_FLAGS) $(INCLUDES) -MMD -MP
LINK      = $(CC) $(CFLAGS) $(HOUSE) $(LDFLAGS)
LIBS     := -lm

# --- sources ------------------------------------------------------------------------------------

# One source of arithmetic, compiled once per instruction set; the library picks at run time.
KERNELS     := src/engine/fold_kernels.c
SETS        := baseline $(if $(filter x86_64-%,$(shell $(CC) -dumpmachine 2>/dev/null)),avx2 avx512)
SET_avx2    := -mavx2 -mf16c
SET_avx512  := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mf16c -mprefer-vector-width=512
KERNEL_OBJS := $(if $(wildcard $(KERNELS)),$(SETS:%=$(O)/obj/src/engine/fold_%.o))

# The proof is the command's and the tests': programs that use the library do without it.
PROOFS   := $(wildcard src/proof/*.c)
SOURCES  := $(filter-out $(KERNELS) $(PROOFS),$(wildcard src/*.c src/*/*.c src/plan/algo/*.c))
OBJS     := $(SOURCES:%.c=$(O)/obj/%.o) $(KERNEL_OBJS)
PROOF_OBJS := $(PROOFS:%.c=$(O)/obj/%.o)
CLI_OBJS := $(patsubst %.c,$(O)/obj/%.o,$(wildcard cli/*.c))

TEST_SOURCES := $(wildcard tests/test_*.c)
TEST_HELPERS := $(patsubst %.c,$(O)/obj/%.o,$(filter-out $(TEST_SOURCES),$(wildcard tests/*.c)))
TESTS    := $(TEST_SOURCES:tests/%.c=tests/%)
BENCHES  := $(patsubst %.c,%,$(wildcard bench/*.c))
EXAMPLES := $(patsubst %.c,%,$(wildcard examples/*.c))
FUZZERS  := $(patsubst %.c,%,$(wildcard fuzz/fuzz_*.c))
FUZZ_OBJS := $(FUZZERS:%=$(O)/obj/%.o)
PROGRAMS := $(TESTS) $(BENCHES) $(EXAMPLES)

# --- libraries and command ----------------------------------------------------------------------

.PHONY: all lib tests bench-programs examples fuzzers programs
all: lib $(if $(CLI_OBJS),$(O)/ronda)
lib: $(O)/libronda.a $(O)/libronda.so
tests: $(TESTS:%=$(O)/%)
bench-programs: $(BENCHES:%=$(O)/%)
examples: $(EXAMPLES:%=$(O)/%)
fuzzers: $(FUZZERS:%=$(O)/%)
programs: all $(PROGRAMS:%=$(O)/%)

$(O)/libronda.a: $(OBJS) $(O)/list
	@echo "  AR    $@"
	$(Q)rm -f $@ && $(AR) rcsD $@ $(OBJS)

# No symbol may be left open; only the sanitizers leave theirs to the program.
$(O)/libronda.so: $(OBJS) $(O)/list
	@echo "  LINK  $@"
	$(Q)$(LINK) -shared -Wl,-soname,$(SONAME) $(if $(SAN),,-Wl,-z,defs) -o $@ $(OBJS) $(LIBS)
	$(Q)ln -sf libronda.so $(O)/$(SONAME)

$(O)/libronda-proof.a: $(PROOF_OBJS) $(O)/list
	@echo "  AR    $@"
	$(Q)rm -f $@ && $(AR) rcsD $@ $(PROOF_OBJS)

# In the order in which they need each other
CLI_LIBS := $(O)/libronda-proof.a $(O)/libronda.a

$(O)/ronda: $(CLI_OBJS) $(CLI_LIBS)
	@echo "  LINK  $@"
	$(Q)$(LINK) -o $@ $(CLI_OBJS) $(CLI_LIBS) $(LIBS)

# What the command is made of, main() apart, for the tests of its parts and for the benches.
$(O)/cli.a: $(filter-out %/main.o,$(CLI_OBJS))
	@echo "  AR    $@"
	$(Q)rm -f $@ && $(AR) rcsD $@ $^

$(TESTS:%=$(O)/%): $(O)/%: $(O)/obj/%.o $(TEST_HELPERS) $(O)/cli.a $(CLI_LIBS)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	$(Q)$(LINK) -o $@ $(filter %.o,$^) $(O)/cli.a $(CLI_LIBS) $(LIBS)

# It replays what the fuzzers have found: each of them is a function there.
$(O)/tests/test_corpus: $(FUZZ_OBJS)
$(if $(filter fuzz,$(SAN)),,$(FUZZ_OBJS): CPPFLAGS += -DLLVMFuzzerTestOneInput=$$(*F))

$(FUZZERS:%=$(O)/%): $(O)/%: $(O)/obj/%.o $(O)/cli.a $(CLI_LIBS)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	$(Q)$(LINK) -fsanitize=fuzzer -o $@ $(filter %.o,$^) $(O)/cli.a $(CLI_LIBS) $(LIBS)

$(O)/fuzz/seeds: $(O)/obj/fuzz/seeds.o $(O)/libronda.a
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	$(Q)$(LINK) -o $@ $^ $(LIBS)

$(BENCHES:%=$(O)/%): $(O)/%: $(O)/obj/%.o $(O)/cli.a $(CLI_LIBS)
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	$(Q)$(LINK) -o $@ $(filter %.o,$^) $(O)/cli.a $(CLI_LIBS) $(LIBS)

$(EXAMPLES:%=$(O)/%): $(O)/%: $(O)/obj/%.o $(O)/libronda.a
	@mkdir -p $(@D)
	@echo "  LINK  $@"
	$(Q)$(LINK) -o $@ $(filter %.o,$^) $(O)/libronda.a $(LIBS)

$(O)/obj/tests/%.o $(O)/obj/bench/%.o: INCLUDES += -Itests
# Examples are users' programs: they see the public header alone.
$(O)/obj/examples/%.o: INCLUDES := -Iinclude

$(O)/obj/%.o: %.c $(O)/flags
	@mkdir -p $(@D)
	@echo "  CC    $@"
	$(Q)$(COMPILE) -c -o $@ $<

$(KERNEL_OBJS): $(O)/obj/src/engine/fold_%.o: $(KERNELS) $(O)/flags
	@mkdir -p $(@D)
	@echo "  CC    $@"
	$(Q)$(COMPILE) -c -o $@ $<
$(KERNEL_OBJS): SET_FLAGS = $(SET_$*) -DRD_FOLD_SET=$*

# These two files change when the command line or the list of sources does, and only then: what
# depends on them is made anew.
FLAGS_NOW := $(CC) $(shell $(CC) -dumpversion 2>/dev/null) $(CPPFLAGS) $(CFLAGS) $(HOUSE) \
             $(LDFLAGS) $(SET_avx2) $(SET_avx512)
quoted = '$(subst ','\'',$(1))'
define keep
@mkdir -p $(@D)
@printf '%s\n' $(call quoted,$(1)) | cmp -s - $@ || printf '%s\n' $(call quoted,$(1)) >$@
endef

.PHONY: force
$(O)/flags: force
	$(call keep,$(FLAGS_NOW))
$(O)/list: force
	$(call keep,$(OBJS) $(PROOF_OBJS))

-include $(shell find $(O)/obj -name '*.d' 2>/dev/null)

# --- demo, check, bench -------------------------------------------------------------------------

# These install what the machine lacks, and use all of its cores.
parallel = $(MAKE) --no-print-directory $(if $(filter -j%,$(MAKEFLAGS)),,-j$(JOBS))

# The other compiler builds everything too, and what it makes of the arithmetic is tested; with
# FULL=1, everything it builds.
OTHER := $(if $(findstring clang,$(CC)),gcc,clang)
export CC OTHER BUILD VERSION

.PHONY: demo check prepare-build prepare-check prepare-peers prepare-fuzz bench bench-peers fuzz fuzz-corpus format
demo: prepare-build
	@+$(parallel) $(O)/examples/demo
	@$(O)/examples/demo

SCRIPT_TESTS := tests/worlds tests/launch_hosts tests/launch_ssh tests/docs tests/format tests/house tests/symbols tests/commands tests/cli tests/bench tests/launch tests/launchers tests/hosts tests/doctor tests/install tests/man tests/tutorial
# What has no threads, or threads that share nothing, tells the thread sanitizer nothing.
ALONE        := $(addprefix tests/test_,check corpus draw fuzz fuzz_args fuzz_hosts handshake hosts_file launch_frames mutants print)
OTHER_TESTS  := $(if $(FULL),$(TESTS),$(filter tests/test_fold%,$(TESTS)))
check: prepare-check
	@tests/run tests/build \
	    $(foreach o,$(BUILD) $(BUILD)/address,$(TESTS:%=$(o)/%)) \
	    $(patsubst %,$(BUILD)/thread/%,$(filter-out $(ALONE),$(TESTS))) \
	    $(OTHER_TESTS:%=$(BUILD)/$(OTHER)/%) $(SCRIPT_TESTS)

prepare-build:
	@tests/prepare build
prepare-check:
	@tests/prepare check
prepare-peers:
	@tests/prepare peers
prepare-fuzz:
	@CC=clang tests/prepare fuzz

bench: prepare-build
	@+$(parallel) bench-programs
	@set -e; for b in $(BENCHES:%=$(O)/%); do echo "== $$b"; $$b; done

# ronda beside the MPIs of Debian's packages; RANKS=, ROUNDS=, SIZES=8,64K, SECONDS= for each point.
RANKS   ?= 2
ROUNDS  ?= 5
SIZES   ?= 8,1024,65536,1048576,16777216
SECONDS ?= 0.15
bench-peers: prepare-peers
	@+$(parallel) all
	@bench/peers/run $(O) '$(RANKS)' '$(ROUNDS)' '$(SIZES)' '$(SECONDS)'

# Each for SECONDS= (60); fuzz/run says what becomes of what they find.
fuzz: prepare-fuzz
	@+$(parallel) CC=clang SAN=fuzz fuzzers
	@fuzz/run $(BUILD)/fuzz $(if $(filter file,$(origin SECONDS)),60,$(SECONDS)) $(FUZZERS:fuzz/%=%)

# The files of the corpus that are made from the library's own words, anew.
fuzz-corpus: $(O)/fuzz/seeds
	@$(O)/fuzz/seeds fuzz/corpus

format:
	clang-format -i $$(tests/sources)

# --- install ------------------------------------------------------------------------------------

.PHONY: install uninstall clean help
install: all
	install -d "$(DESTDIR)$(INCLUDEDIR)" "$(DESTDIR)$(LIBDIR)/pkgconfig" "$(DESTDIR)$(BINDIR)" \
	    "$(DESTDIR)$(MANDIR)/man1" "$(DESTDIR)$(MANDIR)/man3"
	install -m 644 include/ronda.h "$(DESTDIR)$(INCLUDEDIR)/ronda.h"
	install -m 644 $(O)/libronda.a "$(DESTDIR)$(LIBDIR)/libronda.a"
	install -m 755 $(O)/libronda.so "$(DESTDIR)$(LIBDIR)/libronda.so.$(VERSION)"
	ln -sf libronda.so.$(VERSION) "$(DESTDIR)$(LIBDIR)/$(SONAME)"
	ln -sf $(SONAME) "$(DESTDIR)$(LIBDIR)/libronda.so"
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' \
	    -e 's|@VERSION@|$(VERSION)|' ronda.pc.in >"$(DESTDIR)$(LIBDIR)/pkgconfig/ronda.pc"
	chmod 644 "$(DESTDIR)$(LIBDIR)/pkgconfig/ronda.pc"
	install -m 755 $(O)/ronda "$(DESTDIR)$(BINDIR)/ronda"
	for s in 1 3; do \
	    sed 's|@VERSION@|$(VERSION)|' man/ronda.$$s >"$(DESTDIR)$(MANDIR)/man$$s/ronda.$$s" && \
	    chmod 644 "$(DESTDIR)$(MANDIR)/man$$s/ronda.$$s" || exit 1; \
	done

uninstall:
	rm -f "$(DESTDIR)$(INCLUDEDIR)/ronda.h" "$(DESTDIR)$(BINDIR)/ronda" \
	    "$(DESTDIR)$(LIBDIR)/libronda.a" "$(DESTDIR)$(LIBDIR)/libronda.so" \
	    "$(DESTDIR)$(LIBDIR)/$(SONAME)" "$(DESTDIR)$(LIBDIR)/libronda.so.$(VERSION)" \
	    "$(DESTDIR)$(LIBDIR)/pkgconfig/ronda.pc" \
	    "$(DESTDIR)$(MANDIR)/man1/ronda.1" "$(DESTDIR)$(MANDIR)/man3/ronda.3"

clean:
	rm -rf $(BUILD)

help:
	@echo 'make              libraries and command: build/libronda.a, build/libronda.so, build/ronda'
	@echo 'make demo         build and run a small demonstration'
	@echo 'make check        build and run every test; FULL=1: the other compiler'"'"'s too'
	@echo 'make tests        build the test programs, build/tests/*; each takes parts of test names'
	@echo 'make bench        build and run the measurements in bench/'
	@echo 'make bench-peers  ronda beside Open MPI and MPICH, which it installs; RANKS=, ROUNDS=, SIZES='
	@echo 'make fuzz         build and run the fuzzers with clang, each for SECONDS=60; make fuzz-corpus: their seeds'
	@echo 'make programs     build everything, run nothing'
	@echo 'make format       bring the sources into the format of .clang-format'
	@echo 'make install      install below PREFIX=/usr/local; DESTDIR= goes before it'
	@echo 'make uninstall    remove what install made'
	@echo 'make clean        remove build/'
	@echo
	@echo 'Variables: CC=clang, CFLAGS=, LDFLAGS=, SAN=address or SAN=thread (in build/address,'
	@echo 'build/thread), BUILD=directory, WERROR= (warnings do not stop the build), V=1 (show commands)'
