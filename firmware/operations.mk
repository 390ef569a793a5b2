# Which operations an image holds. Besides `null`, `busy` and `idle`, which are in every image:
#
#   all        what the board holds in IMAGE_all (board.mk), by default everything
#   symmetric  ciphers, digests, generator              ecc      signatures and key agreement
#   aes        of the symmetric ones AES                others   the rest of them
#   null       nothing more                             op-NAME  that operation alone
#
# A board may set IMAGE_all, or IMAGE_name for images of its own, and IDLE_MODES for its further sleep modes: these are
# in all, symmetric and aes.

both = $(1) $(1).encrypt $(1).decrypt
AES := $(foreach bits,128 192 256,$(foreach mode,ecb cbc ctr ccm gcm,$(call both,aes-$(bits)-$(mode))))
SHA := sha224 sha256 sha384 sha512
DRBG := drbg
SM3 := sm3
SM4 := $(foreach mode,ecb cbc ctr,$(call both,sm4-$(mode)))
ECDSA := ecdsa-p256 ecdsa-p256.keygen ecdsa-p256.sign ecdsa-p256.verify ecdsa-p256.full
ECDH := $(foreach curve,p256 curve25519,ecdh-$(curve) ecdh-$(curve).public ecdh-$(curve).shared)

IDLE := $(IDLE_MODES:%=idle.%)
SYMMETRIC := $(AES) $(SHA) $(SM4) $(SM3) $(DRBG)
ECC := $(ECDSA) $(ECDH)
KNOWN := $(strip $(IDLE) $(SYMMETRIC) $(ECC))

IMAGE_all ?= $(KNOWN)
IMAGE_symmetric ?= $(IDLE) $(SYMMETRIC)
IMAGE_aes ?= $(IDLE) $(AES)
IMAGE_others ?= $(filter-out $(AES),$(SYMMETRIC))
IMAGE_ecc ?= $(ECC)
IMAGE_null :=

ifneq ($(filter op-%,$(IMAGE)),)
  ifeq ($(filter $(IMAGE:op-%=%),$(KNOWN)),)
    $(error no operation is called '$(IMAGE:op-%=%)'; known operations: $(KNOWN))
  endif
  HELD := $(IMAGE:op-%=%)
else ifeq ($(origin IMAGE_$(IMAGE)),undefined)
  $(error no image is called '$(IMAGE)'; known images: all symmetric ecc aes others null op-NAME)
else
  HELD := $(IMAGE_$(IMAGE))
endif

# The library is configured for what the image holds where a common configuration would link more than the operation
# needs: its dispatchers (cipher, md, ecp) reach everything that is configured.
LIBRARY_OF := op-aes-128-ccm%:ccm op-aes-192-ccm%:ccm op-aes-256-ccm%:ccm \
              op-aes-128-gcm%:gcm op-aes-192-gcm%:gcm op-aes-256-gcm%:gcm \
              op-drbg:p256 op-ecdsa-p256%:p256 op-ecdh-p256%:p256 op-ecdh-curve25519%:curve25519 ecc:ecc
LIBRARY := $(firstword $(foreach pair,$(LIBRARY_OF),$(if $(filter $(firstword $(subst :, ,$(pair))),$(IMAGE)),\
             $(lastword $(subst :, ,$(pair))))) full)
# Own sources beside it: those that this configuration compiles.
OWN_CRYPTO_full := crypto/*/*/*
OWN_CRYPTO_ccm := crypto/aes/mbedtls/aes_block crypto/aes/mbedtls/aes_ccm
OWN_CRYPTO_gcm := crypto/aes/mbedtls/aes_block crypto/aes/mbedtls/aes_gcm
OWN_CRYPTO_p256 := crypto/drbg/*/* crypto/ecdsa-p256/*/* crypto/ecdh/*/*
OWN_CRYPTO_curve25519 := crypto/ecdh/*/*
OWN_CRYPTO_ecc := crypto/ecdsa-p256/*/* crypto/ecdh/*/*

# The least heap: what the curves need is the board's to say.
ifneq ($(filter $(ECC),$(HELD)),)
  HEAP_BYTES := $(HEAP_BYTES_MIN)
else
  HEAP_BYTES := 1024
endif
