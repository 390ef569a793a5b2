/* QEMU plugin: how many instructions were executed when the trigger pin's set and reset registers are written.
   Arguments: set=ADDRESS, reset=ADDRESS, out=FILE; a line "LEVEL INSTRUCTIONS" for each write. A block counts whole when it
   is entered. API: qemu-plugin.h, version 1. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qemu-plugin.h>

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

static uint64_t set_address, reset_address, n_instructions;
static FILE *out;

static void executed(unsigned int cpu, void *count) {
    (void)cpu;
    n_instructions += (uintptr_t)count;
}

static void written(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data) {
    (void)cpu, (void)info, (void)data;
    if (address == set_address || address == reset_address) {
        fprintf(out, "%d %" PRIu64 "\n", address == set_address, n_instructions);
        fflush(out);
    }
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
    (void)id;
    size_t n = qemu_plugin_tb_n_insns(block);
    qemu_plugin_register_vcpu_tb_exec_cb(block, executed, QEMU_PLUGIN_CB_NO_REGS, (void *)(uintptr_t)n);
    for (size_t i = 0; i < n; i++) {
        struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(block, i);
        char *text = qemu_plugin_insn_disas(instruction);
        /* Only stores: with a callback for every access of every instruction QEMU is slow. */
        if (strncmp(text, "str", 3) == 0) {
            qemu_plugin_register_vcpu_mem_cb(instruction, written, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_W, NULL);
        }
        free(text);
    }
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv) {
    (void)info;
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "set=", 4) == 0) {
            set_address = strtoull(argv[i] + 4, NULL, 0);
        } else if (strncmp(argv[i], "reset=", 6) == 0) {
            reset_address = strtoull(argv[i] + 6, NULL, 0);
        } else if (strncmp(argv[i], "out=", 4) == 0) {
            out = fopen(argv[i] + 4, "w");
        }
    }
    if (out == NULL) {
        return -1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    return 0;
}
