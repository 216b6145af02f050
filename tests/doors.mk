# doors.mk - make doors: what goes from ppo.h into other programs, and from there to it, beside those programs. These tests
# need packages of Python, and each is skipped by name where one is missing. PPO_PYTHON=... names the Python.
DOORS := tests/doors_python.sh tests/onnx.sh tests/convert.sh tests/doors_csharp.sh tests/doors_tokenizers.sh tests/doors_chat.sh \
         tests/doors_gguf.sh

doors: build/stb_ds.found build/train ## tests what other programs read and call, with packages of Python (PPO_PYTHON names it)
	@$(MAKE) --no-print-directory shared
	@sh tests/run.sh -j$(PROCESSORS) $(DOORS)

.PHONY: doors
