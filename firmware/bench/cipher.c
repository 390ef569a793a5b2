#include "cipher.h"

#include <string.h>

#include "crc.h"
#include "workspace.h"

/* Any negative status will do: it is told only where memory is not what was lacking. */
#define NO_MEMORY (-1)
#define WRONG (-2)

static const struct cipher *cipher;
static void *context_encrypt, *context_decrypt; /* the same where the mode has one for both */
static struct passage forth, back;
static uint8_t *plain, *secret;
static uint32_t secret_crc32;
static int encrypts, decrypts, key_inside;

static int open_one(void *context, int decrypt) {
    return cipher->mode->open(context, cipher->key, cipher->key_bits, decrypt);
}

static int open_contexts(void) {
    int status = encrypts ? open_one(context_encrypt, 0) : 0;
    if (decrypts && (!encrypts || context_decrypt != context_encrypt)) {
        status |= open_one(context_decrypt, 1);
    }
    return status;
}

static void close_contexts(void) {
    if (encrypts) {
        cipher->mode->close(context_encrypt);
    }
    if (decrypts && (!encrypts || context_decrypt != context_encrypt)) {
        cipher->mode->close(context_decrypt);
    }
}

int cipher_step_encrypt(void) {
    int status = key_inside ? open_contexts() : 0;
    status |= cipher->mode->crypt(context_encrypt, 0, &forth);
    if (key_inside) {
        close_contexts();
    }
    return status;
}

int cipher_step_decrypt(void) {
    int status = key_inside ? open_contexts() : 0;
    status |= cipher->mode->crypt(context_decrypt, 1, &back);
    if (key_inside) {
        close_contexts();
    }
    return status;
}

int cipher_step_both(void) {
    int status = key_inside ? open_contexts() : 0;
    status |= cipher->mode->crypt(context_encrypt, 0, &forth);
    status |= cipher->mode->crypt(context_decrypt, 1, &back);
    if (key_inside) {
        close_contexts();
    }
    return status;
}

static const char *refuse(const struct operation *op, const struct request *request) {
    const struct mode *mode = ((const struct cipher *)op->detail)->mode;
    if (request->bytes % mode->unit != 0) {
        return "bytes: this mode takes whole blocks of 16";
    }
    if (request->piece != 0 && mode->piece_unit == 0) {
        return "piece: this mode takes its message whole";
    }
    if (request->piece != 0 && request->piece % mode->piece_unit != 0) {
        return "piece: this mode takes pieces of whole blocks of 16";
    }
    return NULL;
}

/* The ciphertext as it must be, made from single blocks before the measured contexts exist. */
static int expect(void) {
    const struct block_cipher *block = cipher->block;
    int status = block->open(context_encrypt, cipher->key, cipher->key_bits);
    status = status ? status : cipher->mode->reference(block, context_encrypt, &forth);
    block->close(context_encrypt);
    secret_crc32 = crc32_add(0, secret, forth.bytes + cipher->mode->tag_bytes);
    return status;
}

/* That decrypting writes its output is seen here: in the window the buffer holds the message before and after. */
static int prove_decryption(void) {
    if (!decrypts) {
        return 0;
    }
    memset(plain, 0, back.bytes);
    int status = cipher->mode->crypt(context_decrypt, 1, &back);
    return status == 0 && message_differs(plain, back.bytes) ? WRONG : status;
}

static int allocate(const struct request *request) {
    const struct mode *mode = cipher->mode;
    uint32_t one = cipher->block->context_bytes;
    one = mode->context_bytes > one ? mode->context_bytes : one;
    context_encrypt = context_decrypt = workspace_state(one);
    if (encrypts && decrypts && mode->two_contexts) {
        context_decrypt = workspace_state(mode->context_bytes);
    }
    plain = workspace_buffer(request->bytes, request->offset);
    secret = workspace_buffer(request->bytes + mode->tag_bytes, request->offset);
    return context_encrypt && context_decrypt && plain && secret ? 0 : NO_MEMORY;
}

static int prepare(const struct operation *op, const struct request *request) {
    cipher = op->detail;
    encrypts = op->step != cipher_step_decrypt;
    decrypts = op->step != cipher_step_encrypt;
    key_inside = request->key_inside;
    int status = allocate(request);
    if (status != 0) {
        cipher = NULL;
        return status;
    }
    message_fill(plain, request->bytes);
    forth = (struct passage){plain, secret, request->bytes, request->piece, cipher->iv, NULL, cipher->iv_bytes, 0,
                             cipher->mode->tag_bytes};
    back = forth;
    back.in = secret;
    back.out = plain;
    status = expect();
    status = status ? status : open_contexts();
    status = status ? status : prove_decryption();
    if (key_inside) {
        close_contexts();
    }
    return status;
}

static void arm(void) {
    if (encrypts) {
        message_fill(plain, forth.bytes);
        memset(secret, 0, forth.bytes + forth.tag_bytes);
    } else {
        memset(plain, 0, back.bytes);
    }
}

static int check(void) {
    return crc32_add(0, secret, forth.bytes + forth.tag_bytes) != secret_crc32 || message_differs(plain, forth.bytes);
}

static const uint8_t *output(size_t *n) {
    *n = decrypts ? back.bytes : forth.bytes + forth.tag_bytes;
    return decrypts ? plain : secret;
}

static void release(void) {
    if (cipher != NULL && !key_inside) {
        close_contexts();
    }
    cipher = NULL;
}

const struct kind kind_cipher = {.bytes_default = 64,
                                 .takes = TAKES_KEY | TAKES_PIECE | TAKES_OFFSET,
                                 .refuse = refuse,
                                 .prepare = prepare,
                                 .arm = arm,
                                 .check = check,
                                 .output = output,
                                 .release = release};

static int test(const struct cipher_vector *v, int decrypt) {
    uint8_t out[CIPHER_VECTOR_BYTES_MAX];
    void *context = workspace_state(v->mode->context_bytes);
    struct passage p = {decrypt ? v->cipher : v->plain, out, v->bytes, 0, v->iv, v->aad, v->iv_bytes, v->aad_bytes,
                        v->tag_bytes};
    if (context == NULL || v->mode->open(context, v->key, v->key_bits, decrypt) != 0) {
        return NO_MEMORY;
    }
    int status = v->mode->crypt(context, decrypt, &p);
    v->mode->close(context);
    if (status == 0 && decrypt) {
        status = memcmp(out, v->plain, v->bytes);
    } else if (status == 0) {
        status = memcmp(out, v->cipher, (size_t)v->bytes + v->tag_bytes);
    }
    return status;
}

int cipher_test_encrypt(const struct self_test *self) {
    return test(self->detail, 0);
}

int cipher_test_decrypt(const struct self_test *self) {
    return test(self->detail, 1);
}
