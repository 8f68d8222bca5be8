"""The public keys of an issuer (RFC 7517), as far as they may check a signature."""

from a2a_grpc.wire.keys import ALGORITHMS, RSA_ALGORITHMS, PublicKey, read_key_set

__all__ = ["ALGORITHMS", "RSA_ALGORITHMS", "PublicKey", "read_key_set"]
