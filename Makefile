# make measure   set everything up and measure on the emulated bench
# make test      set everything up and run every check
# make help      list the targets

ifneq ($(words $(CURDIR)),1)
$(error the project lies in '$(CURDIR)', and neither make nor the compiler copes with a space there: move it to a path without one)
endif

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
BUILD  := build
BOARDS := stm32vldiscovery
PROFILE := Os
ELFS   := $(foreach board,$(BOARDS),$(BUILD)/firmware/$(board)/$(PROFILE)/firmware.elf)
READY  := $(VENV)/.ready

.PHONY: help measure test sweep check unit setup browser firmware boards clean

help: ## list the targets
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

measure: setup ## set up, then measure three algorithms on the emulated bench
	$(BIN)/labctl measure --shunt 1.3

test: setup check unit ## set up, then run every check and test

check: $(READY) ## style, types and import rules
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: setup browser ## every test but the long sweeps
	$(BIN)/pytest -n 2 --dist loadfile -m "not sweep"

sweep: setup browser ## the long forms (up to an hour)
	$(BIN)/pytest -n 2 --dist loadfile -m sweep --timeout 3600 -rP
	$(BIN)/python benchmarks/analysis_speed.py --check --windows 2000
	$(BIN)/python benchmarks/analysis_speed.py --check --samples 1e9 --skip-naive --repeats 1
	$(BIN)/python benchmarks/block_transfer.py --check
	$(BIN)/python benchmarks/ppk2_decode.py --check
	$(BIN)/python benchmarks/store_cost.py --check
	$(BIN)/python benchmarks/mutation_check.py

setup: $(READY) firmware $(VENV)/.warm ## virtual environment, cross-compiler, crypto library, firmware

$(READY): pyproject.toml
	@PYTHON=$(PYTHON) setup/apt.sh "python3-venv" "$(PYTHON) python:ensurepip python:venv"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@touch $@

# Compiling the numeric kernels once keeps the first measurement as quick as the next.
$(VENV)/.warm: $(READY) $(wildcard labctl/*/*.py instruments/sim/*.py instruments/sim/dut/*.py) | firmware
	@rm -rf $(BUILD)/warm
	$(BIN)/labctl measure --shunt 1.3 --op sha256 --runs 2 --out $(BUILD)/warm --json > $(BUILD)/warm.json
	@touch $@

# The web pages are tested in a real browser; where none can be had, those tests are skipped and say so.
browser: ## a headless Chromium for the tests, where there is none
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null \
	  || setup/apt.sh "chromium-headless-shell" "chromium-headless-shell" || setup/apt.sh "chromium" "chromium" \
	  || echo "no Chromium here: the tests of the web pages in a browser are skipped" >&2

firmware: ## cross-compile the firmware of the usual board
	@setup/apt.sh "gcc-arm-none-eabi libnewlib-arm-none-eabi" \
	  "arm-none-eabi-gcc /usr/lib/arm-none-eabi/newlib/nano.specs /usr/include/newlib/string.h"
	@for board in $(BOARDS); do \
	  $(MAKE) --no-print-directory -C firmware BOARD=$$board PROFILE=$(PROFILE) BUILD=../$(BUILD) || exit; \
	done

boards: setup ## the firmware of all five boards
	$(BIN)/labctl firmware build --board stm32f0discovery --board stm32vldiscovery --board stm32f4discovery \
	  --board stm32f7discovery --board launchxl-cc26x2r1

clean: ## remove what was built (not the virtual environment)
	rm -rf $(BUILD)
