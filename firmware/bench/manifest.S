/* The build manifest, as the Makefile wrote it. */
    .section .labctl_manifest, "a", %progbits
    .incbin "manifest.txt"
